"""Carry out operations on all matching sessions."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError, CommandParser

from django_agent_sessions.management.options import add_database, get_database, parse_number
from django_agent_sessions.management.terminal import StoppableCommand, pluralize
from django_agent_sessions.models import Operation
from django_agent_sessions.operations import run_waiting

_PAUSE_SECONDS = 5


class Command(StoppableCommand):
    """``manage.py agent_sessions_run_operations``: a worker, or with ``--once`` a job for cron."""

    help = (
        "Carries out the operations on all matching sessions that the admin has started, also "
        "those whose process has ended, and deletes the files of old exports. With --once or "
        "--limit, the exit status is 1 if an operation was stopped or sessions failed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--once", action="store_true", help="End when nothing waits, instead of waiting for it."
        )
        parser.add_argument(
            "--limit",
            type=parse_number,
            metavar="SECONDS",
            help="End after this time; another run continues.",
        )
        add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        alias, limit = get_database(options), options["limit"]
        ends = None if limit is None else time.monotonic() + limit
        errors: dict[UUID, str] = {}
        while True:
            left = None if ends is None else max(ends - time.monotonic(), 0)
            for operation in run_waiting(seconds=left, using=alias):
                self.stdout.write(_describe(operation))
                errors.pop(operation.pk, None)
                if error := _error(operation):
                    errors[operation.pk] = error
            if options["once"] or (ends is not None and time.monotonic() >= ends):
                break
            time.sleep(_PAUSE_SECONDS)
        if errors:
            raise CommandError("\n".join(errors.values()))


def _describe(operation: Operation) -> str:
    figures = ("done", "unchanged", "skipped", "failed")
    counts = ", ".join(f"{getattr(operation, name)} {name}" for name in figures)
    return f"{operation.kind} {operation.pk}: {operation.status}; {counts}"


def _error(operation: Operation) -> str:
    """Return why an administrator has to act; an empty text if there is no reason."""
    name = f"{operation.kind} {operation.pk}"
    if operation.status == Operation.Status.STOPPED and operation.problem:
        if operation.problem == "access":
            return f"{name}: the user who started it may no longer do this: cancel it in the admin"
        why = f"an error stopped it ({operation.problem}, see the log)"
        return f"{name}: {why}; the next run continues it"
    if operation.failed:
        failed = pluralize(operation.failed, "session")
        return f"{name}: {failed} failed; the report in the admin names them"
    return ""
