"""Takes sessions in from where they were before, from a terminal."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_agent_sessions.exceptions import AgentSessionsError
from django_agent_sessions.interchange import (
    ImportReport,
    import_sessions,
    owners_from_csv,
    owners_from_function,
)
from django_agent_sessions.interchange.jsonl_reading import MAX_LINE_BYTES
from django_agent_sessions.interchange.kinds import KINDS, nothing_found, open_source
from django_agent_sessions.interchange.owners import find_user
from django_agent_sessions.interchange.sources import Skipped
from django_agent_sessions.management.databases import add_database, database_of
from django_agent_sessions.management.stopping import StoppableCommand
from django_agent_sessions.management.terminal import ProgressLine, counted, printable
from django_agent_sessions.owners import NOBODY

_EXIT = 1


class Command(StoppableCommand):
    """``manage.py agent_sessions_import``: can be stopped at any moment and run again."""

    stopped = "Stopped; run it again, it goes on from here."
    help = (
        "Imports sessions of Strands' and OpenAI's own storages, or of an export. It can be "
        "stopped and run again: nothing is missing then, and nothing there twice. It prints "
        "ids, never content, and ends with 1 if something could not be taken."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Adds where from, whose they are, and where to."""
        places = "; ".join(f"{kind}: {place}" for kind, (place, _) in KINDS.items())
        parser.add_argument("kind", choices=tuple(KINDS), metavar="KIND", help=", ".join(KINDS))
        parser.add_argument("place", nargs="?", default="", metavar="PLACE", help=f"{places}.")
        parser.add_argument(
            "--namespace",
            help="The namespace of the sessions; by default the one that an export names, or none.",
        )
        owners = parser.add_mutually_exclusive_group()
        owners.add_argument(
            "--owner", metavar="USER", help="Who owns them all: a user name or primary key."
        )
        owners.add_argument(
            "--owners",
            metavar="CSV",
            help="A file that says who owns which, with the columns session_id and user.",
        )
        owners.add_argument(
            "--owner-function",
            metavar="PATH",
            help="The dotted path of a function that says who owns a session.",
        )
        parser.add_argument(
            "--max-line-bytes",
            type=int,
            default=MAX_LINE_BYTES,
            metavar="BYTES",
            help=(
                "How long a line of an export may be, uncompressed; longer ones are skipped. "
                "Default: %(default)s."
            ),
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="Read and check everything; write nothing."
        )
        add_database(parser)
        parser.add_argument("--no-progress", action="store_true", help="Show no progress.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Imports, and prints what was done.

        Raises:
            CommandError: It cannot be done, or found nothing, or something was skipped because of
                an error.
        """
        kind, place = options["kind"], options["place"]
        if not place and kind != "openai-django-sessions":
            raise CommandError(f"say where the sessions are: {KINDS[kind][0]}")
        alias = database_of(options)
        try:
            source = open_source(kind, place, max_line_bytes=options["max_line_bytes"])
            owner = self._owner(options, alias)
            line = ProgressLine(
                options.get("stderr") or sys.stderr,
                wanted=not options["no_progress"],
                total=None if options["no_progress"] else source.count(),
            )
            try:
                report = import_sessions(
                    source,
                    namespace=options["namespace"],
                    owner=owner,
                    using=alias,
                    dry_run=options["dry_run"],
                    progress=partial(_show, line),
                )
            finally:
                line.clear()
        except AgentSessionsError as error:
            raise CommandError(printable(str(error))) from error
        self._print(report, dry_run=options["dry_run"])
        if report.errors:
            raise CommandError(
                f"{counted(report.errors, 'thing')} could not be taken: see above", returncode=_EXIT
            )
        if not report.sessions:
            raise CommandError(printable(nothing_found(kind, place)), returncode=_EXIT)

    def _print(self, report: ImportReport, *, dry_run: bool) -> None:
        for skipped in report.skipped:
            self._tell(skipped)
        if report.skips > len(report.skipped):
            self.stdout.write(f"and {report.skips - len(report.skipped)} more")
        done = "would be written" if dry_run else "written"
        self.stdout.write(
            f"{counted(report.messages, 'message')} {done}; sessions: {report.made} new, "
            f"{report.continued} continued, {report.unchanged} there already, "
            f"{report.left_out} left out"
        )

    def _tell(self, skipped: Skipped) -> None:
        self.stdout.write(printable(f"{skipped.place}: {skipped.reason}"))

    def _owner(self, options: dict[str, Any], alias: str) -> Any:
        if options["owners"] is not None:
            return owners_from_csv(options["owners"], using=alias, told=self._tell)
        if options["owner_function"] is not None:
            return owners_from_function(options["owner_function"])
        if options["owner"] is not None:
            return find_user(options["owner"], using=alias)
        return NOBODY


def _show(line: ProgressLine, report: ImportReport) -> None:
    sessions, messages = counted(report.sessions, "session"), counted(report.messages, "message")
    line.show(report.sessions, f"{sessions}, {messages}")
