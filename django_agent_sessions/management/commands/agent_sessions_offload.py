"""Move large binaries of stored messages to the blob storage."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.template.defaultfilters import filesizeformat

from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.management.options import add_database, get_database
from django_agent_sessions.management.terminal import StoppableCommand
from django_agent_sessions.store.contents import move_binaries_to_storage


class Command(StoppableCommand):
    """``manage.py agent_sessions_offload``: intended to run once after BLOB_STORAGE is set."""

    help = (
        "Moves large binaries of existing messages from the database to BLOB_STORAGE. It can be "
        "interrupted and run again, and agents can continue to run."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--dry-run", action="store_true", help="Only count what would be moved."
        )
        add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        alias = get_database(options)
        try:
            result = move_binaries_to_storage(dry_run=options["dry_run"], using=alias)
        except ConfigurationError as error:
            raise CommandError(str(error)) from error
        size = filesizeformat(result.bytes).replace("\xa0", " ")
        verb = "would be moved" if options["dry_run"] else "moved"
        self.stdout.write(
            f"{result.binaries} binaries ({size}) of {result.messages} messages {verb}"
        )
        for key, failure in result.failures.items():
            self.stderr.write(f"message {key} was not changed: {failure}")
        if result.failures:
            rest = ", and the remaining messages were not tried" if result.given_up else ""
            raise CommandError(
                f"binaries of {len(result.failures)} messages could not be moved{rest}: "
                "run the command again"
            )
