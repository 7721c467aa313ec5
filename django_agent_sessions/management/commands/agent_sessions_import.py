"""Import sessions from other storages and from exports."""

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
    owners_from_source,
)
from django_agent_sessions.interchange.jsonl_import import MAX_LINE_BYTES
from django_agent_sessions.interchange.owner_mapping import find_user
from django_agent_sessions.interchange.source_registry import (
    KINDS_WITH_OWNERS,
    OPTIONAL_LOCATIONS,
    SOURCES,
    may_be_empty,
    no_sessions_text,
    open_source,
)
from django_agent_sessions.interchange.sources import Skipped
from django_agent_sessions.management.options import add_database, add_key, get_database
from django_agent_sessions.management.terminal import (
    ProgressLine,
    StoppableCommand,
    escape_control_characters,
    pluralize,
)
from django_agent_sessions.values.owners import NOBODY

_EXIT_STATUS = 1


class Command(StoppableCommand):
    """``manage.py agent_sessions_import``: can be stopped at any time and run again."""

    stopped = "Stopped. Run the command again to continue from here."
    help = (
        "Imports sessions from the storages of Strands and OpenAI, from other packages, or from an "
        "export. It can be stopped and run again without losing or duplicating anything. It prints "
        "ids, never content. The exit status is 1 if something could not be imported."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        places = "; ".join(f"{kind}: {place}" for kind, (place, _) in SOURCES.items())
        parser.add_argument("kind", choices=tuple(SOURCES), metavar="KIND", help=", ".join(SOURCES))
        parser.add_argument("place", nargs="?", default="", metavar="PLACE", help=f"{places}.")
        add_key(
            parser,
            help="The namespace of the imported sessions; by default the namespace in the "
            "export, or none.",
        )
        owners = parser.add_mutually_exclusive_group()
        owners.add_argument(
            "--owner", metavar="USER", help="The owner of all sessions: a username or primary key."
        )
        owners.add_argument(
            "--owners",
            metavar="CSV",
            help="A CSV file of owners with the columns session_id and user.",
        )
        owners.add_argument(
            "--owner-function",
            metavar="PATH",
            help="The dotted path of a function that returns the owner of a session.",
        )
        owners.add_argument(
            "--keep-owners",
            action="store_true",
            help=(
                "Keep the owners that the source names, found by their user names; only for "
                f"{' and '.join(sorted(KINDS_WITH_OWNERS))}, and only if you trust the source."
            ),
        )
        parser.add_argument(
            "--max-line-bytes",
            type=int,
            default=MAX_LINE_BYTES,
            metavar="BYTES",
            help=(
                "The maximum length of a line of an export, uncompressed; longer ones are skipped. "
                "Default: %(default)s."
            ),
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="Read and check everything, but write nothing."
        )
        add_database(parser)
        parser.add_argument("--no-progress", action="store_true", help="Do not show progress.")

    def handle(self, *args: Any, **options: Any) -> None:
        kind, place = options["kind"], options["place"]
        if not place and kind not in OPTIONAL_LOCATIONS:
            raise CommandError(f"PLACE is required: {SOURCES[kind][0]}")
        if options["keep_owners"] and kind not in KINDS_WITH_OWNERS:
            raise CommandError(
                f"{kind} does not name owners: use --owner, --owners or --owner-function"
            )
        alias = get_database(options)
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
                    scope=options["scope"],
                    owner=owner,
                    using=alias,
                    dry_run=options["dry_run"],
                    progress=partial(_show_progress, line),
                )
            finally:
                line.clear()
        except AgentSessionsError as error:
            raise CommandError(escape_control_characters(str(error))) from error
        self._print(report, dry_run=options["dry_run"])
        if report.errors:
            raise CommandError(
                f"{pluralize(report.errors, 'item')} could not be imported: see above",
                returncode=_EXIT_STATUS,
            )
        if not report.sessions:
            text = escape_control_characters(no_sessions_text(kind, place))
            if not may_be_empty(kind):
                raise CommandError(text, returncode=_EXIT_STATUS)
            self.stdout.write(text)

    def _print(self, report: ImportReport, *, dry_run: bool) -> None:
        for skipped in report.skipped:
            self._print_skipped(skipped)
        if report.skips > len(report.skipped):
            self.stdout.write(f"and {report.skips - len(report.skipped)} more")
        done = "would be written" if dry_run else "written"
        self.stdout.write(
            f"{pluralize(report.messages, 'message')} {done}; sessions: {report.made} new, "
            f"{report.continued} continued, {report.unchanged} already imported, "
            f"{report.left_out} skipped"
        )

    def _print_skipped(self, skipped: Skipped) -> None:
        self.stdout.write(escape_control_characters(f"{skipped.place}: {skipped.reason}"))

    def _owner(self, options: dict[str, Any], alias: str) -> Any:
        if options["owners"] is not None:
            return owners_from_csv(options["owners"], using=alias, told=self._print_skipped)
        if options["owner_function"] is not None:
            return owners_from_function(options["owner_function"])
        if options["keep_owners"]:
            return owners_from_source(using=alias)
        if options["owner"] is not None:
            return find_user(options["owner"], using=alias)
        return NOBODY


def _show_progress(line: ProgressLine, report: ImportReport) -> None:
    sessions, messages = (
        pluralize(report.sessions, "session"),
        pluralize(report.messages, "message"),
    )
    line.show(report.sessions, f"{sessions}, {messages}")
