"""Check the integrity of stored sessions."""

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
from django_agent_sessions.management.options import (
    add_database,
    add_key,
    filter_by_key,
    find_session,
    get_database,
)
from django_agent_sessions.management.terminal import ProgressLine, StoppableCommand, pluralize
from django_agent_sessions.models import Session

_LOCATION_FIELDS = ("session", "agent", "branch", "position", "row")


class Command(StoppableCommand):
    """``manage.py agent_sessions_check``: reports findings and repairs them on request."""

    help = (
        "Checks conversations, redactions, snapshots, large binaries and figures. It prints keys "
        "and positions, never content, and can run while agents run. The exit status is 1 if there "
        "are errors or warnings."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "sessions",
            nargs="*",
            metavar="SESSION",
            help="Session ids or primary keys (UUIDs); by default all sessions.",
        )
        add_key(
            parser,
            help="The namespace of the session ids; without session ids, check all its sessions.",
        )
        add_database(parser)
        parser.add_argument(
            "--fix",
            action="store_true",
            help="Repair what can be repaired without loss, and report the rest.",
        )
        parser.add_argument(
            "--blobs",
            action="store_true",
            help="Also read the files of large binaries, and find orphaned files.",
        )
        parser.add_argument(
            "--grace",
            type=float,
            default=GRACE.total_seconds(),
            metavar="SECONDS",
            help="Report wrong counters of sessions that were written within this time as notes, "
            "because the end of a turn updates them. Default: 600.",
        )
        parser.add_argument(
            "--format",
            choices=("text", "json"),
            default="text",
            help="json: one object per line, and a summary at the end.",
        )
        parser.add_argument(
            "--fail-fast", action="store_true", help="Stop at the first error or warning."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        alias = get_database(options)
        sessions = _select_sessions(alias, options)
        total = (Session.objects.using(alias) if sessions is None else sessions).count()
        line = ProgressLine(options.get("stderr") or sys.stderr, total=total)
        check = Check(
            using=alias,
            sessions=sessions,
            mend=options["fix"],
            files=options["blobs"],
            grace=timedelta(seconds=options["grace"]),
            progress=lambda done, messages: line.show(done, pluralize(messages, "message")),
        )
        print_result = self._print_json if options["format"] == "json" else self._print
        for result in check.run():
            line.clear()
            print_result(result, options["verbosity"])
            if options["fail_fast"] and check.left:
                break
        line.clear()
        self._print_summary(check, as_json=options["format"] == "json")
        if check.left:
            raise CommandError(
                f"{pluralize(check.left, 'finding')} left; see the documentation's page on "
                "integrity for what to do"
            )

    def _print(self, result: Result, verbosity: int) -> None:
        finding = result.finding
        if finding.kind.severity is Severity.NOTE and verbosity < 2 and not result.mended:
            return
        location = " ".join(f"{name} {value}" for name, value in _location(finding))
        state = "fixed" if result.mended else finding.kind.severity.value
        parts = [f"{state:<7}", f"{finding.kind.code}:", finding.kind.words]
        parts += [f"({finding.detail})"] if finding.detail else []
        self.stdout.write(" ".join([*parts, location]).rstrip())
        if result.left:
            self.stdout.write(f"        not fixed: {result.left}")

    def _print_json(self, result: Result, verbosity: int) -> None:
        finding = result.finding
        data = {
            "code": finding.kind.code,
            "severity": finding.kind.severity.value,
            "mendable": finding.kind.mendable,
            "mended": result.mended,
            **dict(_location(finding)),
            **({"detail": finding.detail} if finding.detail else {}),
            **({"left": result.left} if result.left else {}),
        }
        self.stdout.write(json.dumps(data))

    def _print_summary(self, check: Check, *, as_json: bool) -> None:
        counts = {kind: check.found[kind] for kind in Kind if check.found[kind]}
        if as_json:
            summary = {
                "sessions": check.sessions_checked,
                "messages": check.messages,
                "found": {kind.code: count for kind, count in counts.items()},
                "unlisted": check.unlisted,
                "left": check.left,
            }
            self.stdout.write(json.dumps({"summary": summary}))
            return
        self.stdout.write(
            f"{pluralize(check.sessions_checked, 'session')} and "
            f"{pluralize(check.messages, 'message')} checked"
        )
        for kind, count in counts.items():
            self.stdout.write(f"{count:>7} {kind.severity.value:<7} {kind.code}: {kind.words}")
        if check.unlisted:
            self.stdout.write(f"{check.unlisted:>7} more, not listed")
        notes = sum(n for kind, n in counts.items() if kind.severity is Severity.NOTE)
        if not check.left:
            self.stdout.write(
                "no errors or warnings" + (" (-v 2 lists the notes)" if notes else "")
            )


def _select_sessions(using: str, options: dict[str, Any]) -> QuerySet[Session] | None:
    rows = Session.objects.using(using)
    if names := options["sessions"]:
        return rows.filter(pk__in=[find_session(using, options, name) for name in names])
    if options["namespace"] is None and options["scope"] is None:
        return None
    sessions = filter_by_key(rows, options)
    # Without this check, a mistyped namespace would pass as free of errors.
    if not sessions.exists():
        raise CommandError(f"namespace {options['namespace'] or ''!r} has no sessions")
    return sessions


def _location(finding: Finding) -> Iterator[tuple[str, Any]]:
    for name in _LOCATION_FIELDS:
        value = getattr(finding, name)
        if value is not None:
            yield name, str(value) if isinstance(value, UUID) else value
