"""Redacts in a session from a terminal, without the secret in the shell's history."""

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
from django_agent_sessions.interchange.owners import find_user
from django_agent_sessions.interchange.rows import each_session
from django_agent_sessions.management.actors import actor_of, add_actor
from django_agent_sessions.management.databases import add_database, database_of
from django_agent_sessions.management.scopes import add_scopes, scopes_of
from django_agent_sessions.management.sessions import find_session
from django_agent_sessions.management.stopping import StoppableCommand
from django_agent_sessions.management.terminal import ProgressLine, counted, printable
from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.redaction import Hit, Redaction, Scope, redact


class Command(StoppableCommand):
    """``manage.py redact_agent_session``: says where something stands, and takes it out."""

    stopped = (
        "Stopped before the end: a session is redacted whole or not at all. Run it again, and it "
        "does what was not done."
    )
    help = (
        "Redacts a text, what a pattern or detectors find, or whole messages of a session, or of "
        "many. It prints places, never content unless --show is given. It ends with 1 if "
        "something could not be redacted."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Adds the sessions, what to redact, why, and how much to print."""
        group = parser.add_argument_group("which sessions (one of these)")
        group.add_argument(
            "session",
            nargs="*",
            metavar="SESSION_ID",
            help="Those with these session ids, or primary keys (UUIDs).",
        )
        group.add_argument(
            "--owner", metavar="USER", help="Those of this user: a user name or primary key."
        )
        group.add_argument(
            "--everybody", action="store_true", help="All there are, whoever owns them."
        )
        parser.add_argument(
            "--namespace",
            help=(
                "Those of this namespace. Without it a session id is looked for where no "
                "namespace was given."
            ),
        )
        add_database(parser)
        add_scopes(parser)
        parser.add_argument("--reason", default="", help="Why; it is kept in the audit trail.")
        add_actor(parser, "redact_agent_session")
        parser.add_argument(
            "--dry-run", action="store_true", help="Only list what would be redacted."
        )
        parser.add_argument(
            "--descendants",
            action="store_true",
            help="Redact in all that was forked from the session, too, whoever owns it.",
        )
        parser.add_argument(
            "--show",
            action="store_true",
            help="Print what stands at the places, before and after; that is recorded as reading.",
        )
        parser.add_argument("--no-progress", action="store_true", help="Show no progress.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Redacts, and prints the places."""
        scopes = list(scopes_of(options))
        if not scopes:
            raise CommandError("there is nothing to redact: see --find-stdin, --detector, --help")
        if not options["dry_run"] and not options["reason"].strip():
            raise CommandError("a redaction needs a --reason")
        alias = database_of(options)
        run = _Run(self, scopes, options, alias)
        try:
            sessions = _chosen(options, alias)
            if len(options["session"]) == 1:
                [key] = each_session(sessions)
                run.print(run.redact(key))
            elif options["message"]:
                raise CommandError("--message is for one session: give its SESSION_ID")
            else:
                run.go_through(sessions)
        except AgentSessionsError as error:
            raise CommandError(str(error)) from error


class _Run:
    """One run: what is redacted wherever it looks, and what it prints."""

    def __init__(
        self, command: BaseCommand, scopes: Sequence[Scope], options: dict[str, Any], alias: str
    ) -> None:
        self.stdout, self.stderr = command.stdout, command.stderr
        self.line = ProgressLine(
            options.get("stderr") or sys.stderr, wanted=not options["no_progress"]
        )
        self.scopes, self.options, self.alias = scopes, options, alias
        self.actor = actor_of(options, alias)

    def redact(self, session: UUID) -> Redaction:
        """Redacts in a session."""
        return redact(
            session,
            *self.scopes,
            reason=self.options["reason"],
            actor=self.actor,
            dry_run=self.options["dry_run"],
            descendants=self.options["descendants"],
            using=self.alias,
        )

    def go_through(self, sessions: QuerySet[Session]) -> None:
        """Redacts in each session, and prints those in which something was found."""
        looked = found = failed = 0
        for key in each_session(sessions):
            try:
                name = sessions.values_list("session_id", flat=True).get(pk=key)
                result = self.redact(key)
            except (Session.DoesNotExist, SessionNotFoundError):
                continue  # It was deleted meanwhile.
            except RedactionScopeError:
                raise
            except AgentSessionsError as error:
                failed += 1
                self.line.clear()
                self.stderr.write(f"session {printable(name)}: {printable(str(error))}")
                continue
            looked += 1
            something = any(part.hits or part.kept or part.states for part in result.sessions)
            found += something
            if something or any(part.unread for part in result.sessions):
                self.line.clear()
                self.stdout.write(f"session {printable(name)} ({key}):")
                self.print(result)
            self.line.show(looked, f"{counted(looked, 'session')}, something in {found}")
        self.line.clear()
        self.stdout.write(f"{counted(looked, 'session')} looked through, something in {found}")
        if failed:
            raise CommandError(f"{counted(failed, 'session')} could not be redacted: see above")

    def print(self, result: Redaction) -> None:
        """Prints what was found in a session and its forks; what is shown is recorded before."""
        show = self.options["show"]
        for found in result.sessions:
            if show and found.hits:
                audit.record(
                    AuditEvent.Action.READ,
                    session=found.session,
                    actor=self.actor,
                    details={"page": "redact_agent_session", "hits": len(found.hits)},
                    using=self.alias,
                )
        for found in result.sessions:
            if found is not result:
                self.stdout.write(f"fork {found.session}:")
            self._print(found, show=show)

    def _print(self, result: Redaction, *, show: bool) -> None:
        for hit in result.hits:
            self.stdout.write(f"{hit.place} ({hit.place.key}): {hit.kind or 'found'}")
            if show:
                self._print_content(hit)
        for place in result.kept:
            self.stdout.write(f"{place} ({place.key}): kept, because programs use this id")
        for place in result.unread:
            self.stdout.write(
                f"{place.kind} {place.name} ({place.key}): a file of it is missing in its storage "
                "and was not looked into"
            )
        if not result.hits and not result.states:
            self.stdout.write("nothing was found; nothing changed")
            return
        done = "would be redacted" if result.dry_run else "redacted"
        self.stdout.write(
            f"{done}: {counted(len(result.hits), 'place')} in "
            f"{counted(result.messages, 'message')} and {counted(result.states, 'other row')}"
        )

    def _print_content(self, hit: Hit) -> None:
        if hit.place.column == "original":
            # A kept original has a permission, a reason and a record of its own.
            self.stdout.write("  (in a kept original, which is not shown)")
            return
        # As one line each, and nothing that a terminal would obey.
        self.stdout.write(f"  - {printable(hit.before) or 'all of it'}")
        self.stdout.write(f"  + {printable(hit.after)}")


def _chosen(options: dict[str, Any], alias: str) -> QuerySet[Session]:
    names, owner, everybody = options["session"], options["owner"], options["everybody"]
    if [bool(names), owner is not None, everybody].count(True) != 1:
        raise CommandError("say which sessions: SESSION_ID, --owner USER or --everybody")
    sessions = Session.objects.using(alias)
    if names:
        keys = [find_session(alias, options["namespace"] or "", name) for name in names]
        return sessions.filter(pk__in=keys)
    if options["namespace"] is not None:
        sessions = sessions.filter(namespace=options["namespace"])
    if owner is not None:
        sessions = sessions.filter(owner=find_user(owner, using=alias))
    return sessions
