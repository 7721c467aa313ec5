"""Delete sessions, audit events and usage after their retention time."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_agent_sessions.exceptions import AgentSessionsError
from django_agent_sessions.governance.retention import PruneReport, prune
from django_agent_sessions.interchange.owner_mapping import find_user
from django_agent_sessions.management.options import (
    add_actor,
    add_database,
    add_reason,
    get_actor,
    get_database,
    parse_number,
)
from django_agent_sessions.management.terminal import (
    ProgressLine,
    StoppableCommand,
    escape_control_characters,
    pluralize,
)
from django_agent_sessions.values.owners import EVERYBODY, NOBODY

_HEAD = ("namespace", "rule", "sessions", "under legal hold")


class Command(StoppableCommand):
    """``manage.py agent_sessions_prune``: intended to run daily."""

    help = (
        "Deletes the sessions whose expires_at has passed or that are older than "
        'AGENT_SESSIONS["RETENTION"] allows, and old audit events and usage. Sessions under legal '
        "hold and sessions in use are kept. Begin with --dry-run."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--dry-run", action="store_true", help="Only count what would be deleted."
        )
        parser.add_argument(
            "--older-than",
            type=parse_number,
            metavar="DAYS",
            help="Delete sessions without activity for so many days, in place of the lifetimes in "
            "the settings. Namespaces with lifetimes of their own keep those, unless --namespace "
            "names one.",
        )
        parser.add_argument(
            "--namespace", help="Only sessions of this namespace; '' for those without one."
        )
        whose = parser.add_mutually_exclusive_group()
        whose.add_argument(
            "--owner", metavar="USER", help="Only sessions of this user: a username or primary key."
        )
        whose.add_argument(
            "--no-owner", action="store_true", help="Only sessions without an owner."
        )
        parser.add_argument(
            "--limit",
            type=parse_number,
            metavar="SECONDS",
            help="Stop after this time; another run continues.",
        )
        parser.add_argument("--no-progress", action="store_true", help="Show no progress bar.")
        add_reason(parser)
        add_actor(parser, "agent_sessions_prune")
        add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        alias = get_database(options)
        chosen = {
            "namespace": options["namespace"],
            "owner": _get_owner(options, alias),
            "older_than": _get_days(options),
            "using": alias,
        }
        try:
            if options["dry_run"]:
                self._show(prune(dry_run=True, **chosen))
            else:
                self._prune(options, chosen)
        except AgentSessionsError as error:
            raise CommandError(str(error)) from error

    def _prune(self, options: dict[str, Any], chosen: dict[str, Any]) -> None:
        actor = get_actor(options, chosen["using"])
        line = ProgressLine(options.get("stderr") or sys.stderr, wanted=not options["no_progress"])
        if line.is_shown:
            line.total = prune(dry_run=True, **chosen).sessions.total()

        def show(report: PruneReport) -> None:
            line.show(report.sessions.total(), _figures(report))

        try:
            report = prune(
                seconds=options["limit"],
                actor=actor,
                reason=options["reason"],
                progress=show,
                **chosen,
            )
        finally:
            line.clear()
        if options["verbosity"] > 1:
            self._show_table(report)
        self.stdout.write(f"{_figures(report)} deleted")
        if report.skipped:
            self.stdout.write(f"{pluralize(report.skipped, 'session')} in use or changed: kept")
        if report.files_left:
            self.stdout.write(
                f"{pluralize(report.files_left, 'file')} of deleted sessions could not be deleted "
                "from a storage: run manage.py agent_sessions_gc"
            )
        if not report.finished:
            self.stdout.write("Time limit reached: run the command again for the rest.")

    def _show(self, report: PruneReport) -> None:
        self._show_table(report)
        self.stdout.write(f"{_figures(report)} would be deleted")

    def _show_table(self, report: PruneReport) -> None:
        keys = sorted({*report.sessions, *report.held})
        if not keys:
            return
        rows = [
            (
                escape_control_characters(key.namespace) or "(none)",
                str(key.rule.label),
                str(report.sessions[key]),
                str(report.held[key]),
            )
            for key in keys
        ]
        widths = [max(len(row[column]) for row in (_HEAD, *rows)) for column in range(len(_HEAD))]
        for row in (_HEAD, *rows):
            texts = [text.ljust(width) for text, width in zip(row[:2], widths[:2], strict=True)]
            numbers = [text.rjust(width) for text, width in zip(row[2:], widths[2:], strict=True)]
            self.stdout.write("  ".join([*texts, *numbers]))


def _figures(report: PruneReport) -> str:
    sessions = pluralize(report.sessions.total(), "session")
    parts = [f"{sessions} ({pluralize(report.messages, 'message')})"]
    if report.audit_events:
        parts.append(pluralize(report.audit_events, "audit event"))
    if report.usage_rows:
        parts.append(pluralize(report.usage_rows, "row") + " of usage")
    return ", ".join(parts)


def _get_owner(options: dict[str, Any], using: str) -> Any:
    if options["no_owner"]:
        return NOBODY
    if options["owner"] is None:
        return EVERYBODY
    try:
        return find_user(options["owner"], using=using)
    except AgentSessionsError:
        raise CommandError(
            f"--owner {options['owner']!r} matches no user or several: use a username or primary "
            "key"
        ) from None


def _get_days(options: dict[str, Any]) -> timedelta | None:
    days = options["older_than"]
    try:
        return None if days is None else timedelta(days=days)
    except OverflowError as error:
        raise CommandError(f"--older-than: {error}") from error
