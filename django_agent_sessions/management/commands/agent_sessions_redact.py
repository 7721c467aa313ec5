"""Redact sessions from a terminal, without secrets in the shell history."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import QuerySet

from django_agent_sessions import audit
from django_agent_sessions.exceptions import (
    AgentSessionsError,
    RedactionScopeError,
    SessionNotFoundError,
)
from django_agent_sessions.governance.redaction import Hit, Redaction, Scope, redact
from django_agent_sessions.interchange.owner_mapping import find_user
from django_agent_sessions.interchange.row_pages import each_session
from django_agent_sessions.management.options import (
    add_actor,
    add_database,
    add_key,
    add_reason,
    filter_by_key,
    find_session,
    get_actor,
    get_database,
    get_reason,
)
from django_agent_sessions.management.redaction_options import add_scopes, get_scopes
from django_agent_sessions.management.terminal import (
    ProgressLine,
    StoppableCommand,
    escape_control_characters,
    pluralize,
)
from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.models.session_names import by_key


class Command(StoppableCommand):
    """``manage.py agent_sessions_redact``: lists the places and redacts them."""

    stopped = (
        "Stopped. Each session is redacted completely or not at all; run the command again for the "
        "rest."
    )
    help = (
        "Redacts a text, the matches of a pattern or of detectors, or whole messages, in one or "
        "many sessions. It prints places, and content only with --show. The exit status is 1 if "
        "something could not be redacted."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        group = parser.add_argument_group("which sessions (one of these)")
        group.add_argument(
            "session",
            nargs="*",
            metavar="SESSION_ID",
            help="Sessions with these session ids or primary keys (UUIDs).",
        )
        group.add_argument(
            "--owner", metavar="USER", help="Sessions of this user: a username or primary key."
        )
        group.add_argument(
            "--everybody", action="store_true", help="All sessions, with any owner or none."
        )
        add_key(
            parser,
            help=(
                "Sessions of this namespace. Without it, a session id refers to the empty "
                "namespace."
            ),
        )
        add_database(parser)
        add_scopes(parser)
        add_reason(parser)
        add_actor(parser, "agent_sessions_redact")
        parser.add_argument(
            "--dry-run", action="store_true", help="Only list what would be redacted."
        )
        parser.add_argument(
            "--descendants",
            action="store_true",
            help="Also redact all forks of the session, with any owner.",
        )
        parser.add_argument(
            "--show",
            action="store_true",
            help="Print the content of the places, before and after; the audit trail records "
            "this as reading.",
        )
        parser.add_argument("--no-progress", action="store_true", help="Do not show progress.")

    def handle(self, *args: Any, **options: Any) -> None:
        scopes = list(get_scopes(options))
        if not scopes:
            raise CommandError(
                "nothing to redact: use --find-stdin, --detector or another option, see --help"
            )
        if not options["dry_run"]:
            get_reason(options, AuditEvent.Action.REDACTED)
        alias = get_database(options)
        run = _Run(self, scopes, options, alias)
        try:
            sessions = _select_sessions(options, alias)
            if len(options["session"]) == 1:
                [key] = each_session(sessions)
                run.print(run.redact(key))
            elif options["message"]:
                raise CommandError("--message requires exactly one SESSION_ID")
            else:
                run.redact_all(sessions)
        except AgentSessionsError as error:
            raise CommandError(str(error)) from error


class _Run:
    """One run of the command."""

    def __init__(
        self, command: BaseCommand, scopes: Sequence[Scope], options: dict[str, Any], alias: str
    ) -> None:
        self.stdout, self.stderr = command.stdout, command.stderr
        self.line = ProgressLine(
            options.get("stderr") or sys.stderr, wanted=not options["no_progress"]
        )
        self.scopes, self.options, self.alias = scopes, options, alias
        self.actor = get_actor(options, alias)

    def redact(self, session: UUID) -> Redaction:
        return redact(
            by_key(session),
            *self.scopes,
            reason=self.options["reason"],
            actor=self.actor,
            dry_run=self.options["dry_run"],
            descendants=self.options["descendants"],
            using=self.alias,
        )

    def redact_all(self, sessions: QuerySet[Session]) -> None:
        """Redact each session, and print those with places."""
        searched = matching = failed = 0
        for key in each_session(sessions):
            try:
                name = sessions.values_list("session_id", flat=True).get(pk=key)
                result = self.redact(key)
            except (Session.DoesNotExist, SessionNotFoundError):
                continue  # It was deleted in the meantime.
            except RedactionScopeError:
                raise
            except AgentSessionsError as error:
                failed += 1
                self.line.clear()
                self.stderr.write(
                    f"session {escape_control_characters(name)}: "
                    f"{escape_control_characters(str(error))}"
                )
                continue
            searched += 1
            has_matches = any(part.hits or part.kept or part.states for part in result.sessions)
            matching += has_matches
            if has_matches or any(part.unread for part in result.sessions):
                self.line.clear()
                self.stdout.write(f"session {escape_control_characters(name)} ({key}):")
                self.print(result)
            self.line.show(searched, f"{pluralize(searched, 'session')}, matches in {matching}")
        self.line.clear()
        self.stdout.write(f"{pluralize(searched, 'session')} searched, matches in {matching}")
        if failed:
            raise CommandError(f"{pluralize(failed, 'session')} could not be redacted: see above")

    def print(self, result: Redaction) -> None:
        """Print the places of a session and its forks; record a reading before content is shown."""
        show = self.options["show"]
        for part in result.sessions:
            if show and part.hits:
                audit.record_checked(
                    AuditEvent.Action.READ,
                    session=part.session,
                    actor=self.actor,
                    details={"page": "agent_sessions_redact", "hits": part.total},
                    using=self.alias,
                )
        for part in result.sessions:
            if part is not result:
                self.stdout.write(f"fork {part.session}:")
            self._print(part, show=show)

    def _print(self, result: Redaction, *, show: bool) -> None:
        for hit in result.hits:
            self.stdout.write(f"{hit.place} ({hit.place.key}): {hit.kind or 'found'}")
            if show:
                self._print_content(hit)
        if result.total > len(result.hits):
            self.stdout.write(f"and {pluralize(result.total - len(result.hits), 'more place')}")
        for place in result.kept:
            self.stdout.write(f"{place} ({place.key}): kept, because programs use this id")
        for place in result.unread:
            self.stdout.write(
                f"{place} ({place.key}): a file was not searched completely, because it is missing "
                "from its storage, encrypted, damaged, too large, or in an unknown format"
            )
        if not result.hits and not result.states:
            self.stdout.write("no matches; nothing changed")
            return
        verb = "would be redacted" if result.dry_run else "redacted"
        self.stdout.write(
            f"{verb}: {pluralize(result.total, 'place')} in "
            f"{pluralize(result.messages, 'message')} and {pluralize(result.states, 'other row')}"
        )

    def _print_content(self, hit: Hit) -> None:
        # One line each, without control characters.
        self.stdout.write(f"  - {escape_control_characters(hit.before) or 'everything'}")
        self.stdout.write(f"  + {escape_control_characters(hit.after)}")


def _select_sessions(options: dict[str, Any], alias: str) -> QuerySet[Session]:
    names, owner, everybody = options["session"], options["owner"], options["everybody"]
    if [bool(names), owner is not None, everybody].count(True) != 1:
        raise CommandError("specify either SESSION_ID, --owner USER or --everybody")
    sessions = Session.objects.using(alias)
    if names:
        keys = [find_session(alias, options, name) for name in names]
        return sessions.filter(pk__in=keys)
    sessions = filter_by_key(sessions, options)
    if owner is not None:
        sessions = sessions.filter(owner=find_user(owner, using=alias))
    return sessions
