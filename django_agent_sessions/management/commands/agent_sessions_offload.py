"""Moves large binaries out of messages that are in the database already."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.template.defaultfilters import filesizeformat

from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.management.databases import add_database, database_of
from django_agent_sessions.management.stopping import StoppableCommand
from django_agent_sessions.store.offloading import offload


class Command(StoppableCommand):
    """``manage.py agent_sessions_offload``: made to be run once, after BLOB_STORAGE was set."""

    help = (
        "Moves the large binaries of messages that are in the database already to BLOB_STORAGE. "
        "It may be interrupted and run again, and agents may go on meanwhile."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Adds ``--dry-run`` and ``--database``."""
        parser.add_argument("--dry-run", action="store_true", help="Only tell how much there is.")
        add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Moves them, and prints one line, and one for each message that stays as it was."""
        alias = database_of(options)
        try:
            done = offload(dry_run=options["dry_run"], using=alias)
        except ConfigurationError as error:
            raise CommandError(str(error)) from error
        size = filesizeformat(done.bytes).replace("\xa0", " ")
        verb = "would be moved" if options["dry_run"] else "moved"
        self.stdout.write(f"{done.binaries} binaries ({size}) of {done.messages} messages {verb}")
        for key, failure in done.failures.items():
            self.stderr.write(f"message {key} stays as it was: {failure}")
        if done.failures:
            rest = ", and those behind them were not tried" if done.given_up else ""
            raise CommandError(
                f"binaries of {len(done.failures)} messages could not be moved{rest}: run it again"
            )
