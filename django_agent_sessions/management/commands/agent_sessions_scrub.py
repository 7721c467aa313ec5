"""Remove deleted and redacted content from the files of a database."""

from __future__ import annotations

import argparse
import time
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError, connections

from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.management.options import add_database, get_database
from django_agent_sessions.management.terminal import StoppableCommand
from django_agent_sessions.sql import scrubbing
from django_agent_sessions.sql.scrubbing.steps import ScrubError


class Command(StoppableCommand):
    """``manage.py agent_sessions_scrub``: intended for a time of low traffic."""

    help = (
        "Removes what was deleted or redacted from the files of the database, where it stays until "
        "the database writes something else over it. It rewrites all tables of this app, which "
        "takes time and as much free disk space as the largest table. PostgreSQL: VACUUM FULL "
        "locks one table at a time, also for readers; then the planner's statistics and the "
        "segments in pg_wal are replaced. MariaDB: OPTIMIZE TABLE, with readers and writers "
        "meanwhile; then InnoDB's undo log, doublewrite buffer and redo log are overwritten. "
        "SQLite: VACUUM, which locks the file for writers. Replacing logs requires a superuser. "
        "Backups, archived logs and the logs of replicas are not reached. The exit status is 1 if "
        "something is left."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--dry-run", action="store_true", help="Print the statements, and run none of them."
        )
        parser.add_argument(
            "--timeout",
            type=_parse_seconds,
            default=10,
            metavar="SECONDS",
            help="How long to wait for the lock of a table, which makes other statements wait, "
            "too, and for transactions that may still read what was deleted. Default: 10.",
        )
        parser.add_argument(
            "--tables-only",
            action="store_true",
            help="Leave the logs of the server, whose replacement requires a superuser.",
        )
        parser.add_argument(
            "--purge-binary-logs",
            action="store_true",
            help="MariaDB: also delete the binary logs, which replicas and restores to a point in "
            "time may need.",
        )
        add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        alias = get_database(options)
        connection = connections[alias]
        if connection.in_atomic_block or not connection.get_autocommit():
            raise CommandError(
                "agent_sessions_scrub cannot run in a transaction: call it outside of atomic(), "
                "on a connection with autocommit"
            )
        wanted = scrubbing.Options(
            timeout=options["timeout"],
            logs=not options["tables_only"],
            binary_logs=options["purge_binary_logs"],
        )
        try:
            sections = scrubbing.scrub_sections(alias, wanted)
            if options["dry_run"]:
                self._print(sections)
            else:
                self._run(alias, sections, options["verbosity"])
        except (ScrubError, ConfigurationError) as error:
            raise CommandError(str(error)) from error
        except DatabaseError as error:
            # The first line is the error; the others name processes and tables.
            first_line, *_ = str(error).splitlines() or [type(error).__name__]
            raise CommandError(
                f"the database failed ({first_line}): what was rewritten so far stays so; run the "
                "command again, at a time of less traffic or with a longer --timeout"
            ) from error

    def _print(self, sections: list[scrubbing.Section]) -> None:
        for section in sections:
            for step in section.all_steps:
                end = "" if step.statement.startswith("--") else ";"
                self.stdout.write(f"{step.statement}{end}")

    def _run(self, alias: str, sections: list[scrubbing.Section], verbosity: int) -> None:
        left = []
        started = time.monotonic()
        for step, rest in scrubbing.run(alias, sections):
            if rest:
                left.append(rest)
            if verbosity > 1:
                self.stdout.write(f"{time.monotonic() - started:8.1f} s  {step.statement}")
        if left:
            raise CommandError("left in the files:\n" + "\n".join(f"  {rest}" for rest in left))
        if verbosity:
            self.stdout.write(
                f"the files of database {alias!r} were rewritten in "
                f"{time.monotonic() - started:.1f} seconds; backups, archived logs and the logs of "
                "replicas were not reached"
            )


def _parse_seconds(value: str) -> int:
    if not value.isdecimal() or not 0 < int(value) <= 86_400:
        raise argparse.ArgumentTypeError("use a number of seconds, such as 10")
    return int(value)
