"""Checks that what is stored is whole."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError, CommandParser
from django.db.models import QuerySet

from django_agent_sessions.integrity import GRACE, Check, Finding, Kind, Result, Severity
from django_agent_sessions.management.databases import add_database, database_of
from django_agent_sessions.management.sessions import find_session
from django_agent_sessions.management.stopping import StoppableCommand
from django_agent_sessions.management.terminal import ProgressLine, counted
from django_agent_sessions.models import Session

_PLACES = ("session", "agent", "branch", "position", "row")


class Command(StoppableCommand):
    """``manage.py check_agent_sessions``: says what is not as it should be."""

    help = (
        "Checks conversations, redactions, snapshots, large binaries and figures. It prints keys "
        "and positions, never content, and may run while agents do. The exit status is 1 if there "
        "are errors or warnings."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Adds what to look at, what to mend, and how to tell."""
        parser.add_argument(
            "sessions",
            nargs="*",
            metavar="SESSION",
            help="Session ids or primary keys (UUIDs); by default all sessions.",
        )
        parser.add_argument(
            "--namespace",
            help="Of which namespace the session ids are; without session ids, check all of it.",
        )
        add_database(parser)
        parser.add_argument(
            "--fix",
            action="store_true",
            help="Mend what can be mended without a loss, and tell what cannot.",
        )
        parser.add_argument(
            "--blobs",
            action="store_true",
            help="Read the files of large binaries, too, and look for files that no row names.",
        )
        parser.add_argument(
            "--grace",
            type=float,
            default=GRACE.total_seconds(),
            metavar="SECONDS",
            help="Where something was written that lately, counters may be behind: a turn's end "
            "moves them. 600.",
        )
        parser.add_argument(
            "--format",
            choices=("text", "json"),
            default="text",
            help="json: one object a line, and a summary at the end.",
        )
        parser.add_argument(
            "--fail-fast", action="store_true", help="Stop at the first error or warning."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Checks, and prints what was found."""
        alias = database_of(options)
        sessions = _sessions(alias, options["namespace"], options["sessions"])
        total = (Session.objects.using(alias) if sessions is None else sessions).count()
        line = ProgressLine(options.get("stderr") or sys.stderr, total=total)
        check = Check(
            using=alias,
            sessions=sessions,
            mend=options["fix"],
            files=options["blobs"],
            grace=timedelta(seconds=options["grace"]),
            progress=lambda done, messages: line.show(done, counted(messages, "message")),
        )
        tell = self._tell_as_json if options["format"] == "json" else self._tell
        for result in check.run():
            line.clear()
            tell(result, options["verbosity"])
            if options["fail_fast"] and check.left:
                break
        line.clear()
        self._sum_up(check, as_json=options["format"] == "json")
        if check.left:
            raise CommandError(
                f"{counted(check.left, 'finding')} left; the documentation's page on integrity "
                "says what to do"
            )

    def _tell(self, result: Result, verbosity: int) -> None:
        finding = result.finding
        if finding.kind.severity is Severity.NOTE and verbosity < 2 and not result.mended:
            return
        places = " ".join(f"{name} {value}" for name, value in _where(finding))
        state = "mended" if result.mended else finding.kind.severity.value
        parts = [f"{state:<7}", f"{finding.kind.code}:", finding.kind.words]
        parts += [f"({finding.detail})"] if finding.detail else []
        self.stdout.write(" ".join([*parts, places]).rstrip())
        if result.left:
            self.stdout.write(f"        left, because {result.left}")

    def _tell_as_json(self, result: Result, verbosity: int) -> None:
        finding = result.finding
        told = {
            "code": finding.kind.code,
            "severity": finding.kind.severity.value,
            "mendable": finding.kind.mendable,
            "mended": result.mended,
            **dict(_where(finding)),
            **({"detail": finding.detail} if finding.detail else {}),
            **({"left": result.left} if result.left else {}),
        }
        self.stdout.write(json.dumps(told))

    def _sum_up(self, check: Check, *, as_json: bool) -> None:
        found = {kind: check.found[kind] for kind in Kind if check.found[kind]}
        if as_json:
            summary = {
                "sessions": check.looked_at,
                "messages": check.messages,
                "found": {kind.code: count for kind, count in found.items()},
                "unlisted": check.unlisted,
                "left": check.left,
            }
            self.stdout.write(json.dumps({"summary": summary}))
            return
        self.stdout.write(
            f"{counted(check.looked_at, 'session')} and {counted(check.messages, 'message')} "
            "looked at"
        )
        for kind, count in found.items():
            self.stdout.write(f"{count:>7} {kind.severity.value:<7} {kind.code}: {kind.words}")
        if check.unlisted:
            self.stdout.write(f"{check.unlisted:>7} more that are not listed")
        notes = sum(n for kind, n in found.items() if kind.severity is Severity.NOTE)
        if not check.left:
            self.stdout.write("all is well" + (" (-v 2 lists the notes)" if notes else ""))


def _sessions(using: str, namespace: str | None, names: list[str]) -> QuerySet[Session] | None:
    rows = Session.objects.using(using)
    if not names:
        return None if namespace is None else _all_of(rows, namespace)
    return rows.filter(pk__in=[find_session(using, namespace or "", name) for name in names])


def _all_of(rows: QuerySet[Session], namespace: str) -> QuerySet[Session]:
    found = rows.filter(namespace=namespace)
    # All is well in none, too, which whoever mistyped a name would take for a good sign.
    if not found.exists():
        raise CommandError(f"there is no session in namespace {namespace!r}")
    return found


def _where(finding: Finding) -> Iterator[tuple[str, Any]]:
    for name in _PLACES:
        value = getattr(finding, name)
        if value is not None:
            yield name, str(value) if isinstance(value, UUID) else value
