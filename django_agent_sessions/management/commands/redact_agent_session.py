"""Redacts in a session from a terminal, without the secret in the shell's history."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.management.base import CommandError, CommandParser
from django.db import connections

from django_agent_sessions import audit
from django_agent_sessions.exceptions import AgentSessionsError
from django_agent_sessions.management.actors import actor_of, add_actor
from django_agent_sessions.management.databases import database_of
from django_agent_sessions.management.scopes import add_scopes, scopes_of
from django_agent_sessions.management.stopping import StoppableCommand
from django_agent_sessions.management.terminal import counted, printable
from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.redaction import Hit, Redaction, redact


class Command(StoppableCommand):
    """``manage.py redact_agent_session``: says where something stands, and takes it out."""

    stopped = (
        "Stopped before the end: a redaction is done whole or not at all. Run it again, and it "
        "does what was not done."
    )
    help = (
        "Redacts a text, what a pattern or detectors find, or whole messages of a session. It "
        "prints places, never content unless --show is given."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Adds the session, what to redact, why, and how much to print."""
        parser.add_argument(
            "session", metavar="SESSION_ID", help="Its session id, or its primary key (a UUID)."
        )
        parser.add_argument("--namespace", default="", help="The session id's namespace.")
        parser.add_argument(
            "--database",
            choices=tuple(connections),
            help="The alias of the database; by default the one of the sessions.",
        )
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

    def handle(self, *args: Any, **options: Any) -> None:
        """Redacts, and prints the places."""
        scopes = list(scopes_of(options))
        if not scopes:
            raise CommandError("there is nothing to redact: see --find-stdin, --detector, --help")
        if not options["dry_run"] and not options["reason"].strip():
            raise CommandError("a redaction needs a --reason")
        alias = database_of(options)
        session = _session(alias, options["namespace"], options["session"])
        actor = actor_of(options, alias)
        try:
            result = redact(
                session,
                *scopes,
                reason=options["reason"],
                actor=actor,
                dry_run=options["dry_run"],
                descendants=options["descendants"],
                using=alias,
            )
        except AgentSessionsError as error:
            raise CommandError(str(error)) from error
        for found in result.sessions:
            if options["show"] and found.hits:
                audit.record(
                    AuditEvent.Action.READ,
                    session=found.session,
                    actor=actor,
                    details={"page": "redact_agent_session", "hits": len(found.hits)},
                    using=alias,
                )
        for found in result.sessions:
            if found is not result:
                self.stdout.write(f"fork {found.session}:")
            self._print(found, show=options["show"])

    def _print(self, result: Redaction, *, show: bool) -> None:
        for hit in result.hits:
            self.stdout.write(f"{hit.place} ({hit.place.key}): {hit.kind or 'found'}")
            if show:
                self._print_content(hit)
        for place in result.kept:
            self.stdout.write(f"{place} ({place.key}): kept, because programs use this id")
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


def _session(using: str, namespace: str, name: str) -> UUID:
    rows = Session.objects.using(using)
    key = rows.named(namespace, name).values_list("pk", flat=True).first()
    if key is None:
        try:
            key = rows.filter(pk=UUID(name)).values_list("pk", flat=True).first()
        except ValueError:
            key = None
    if key is None:
        where = f" in namespace {namespace!r}" if namespace else ""
        raise CommandError(f"there is no session {name!r}{where}")
    return key
