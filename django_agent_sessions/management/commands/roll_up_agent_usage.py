"""Counts what agents said since the last time, for the usage page."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from django_agent_sessions import usage
from django_agent_sessions.management.databases import add_database, database_of
from django_agent_sessions.management.stopping import StoppableCommand


class Command(StoppableCommand):
    """``manage.py roll_up_agent_usage``: made to be run every quarter of an hour or so."""

    help = "Counts messages, sessions, tokens and latencies of agents since the last time."

    def add_arguments(self, parser: CommandParser) -> None:
        """Adds ``--rebuild`` and ``--database``."""
        parser.add_argument(
            "--rebuild",
            action="store_true",
            help="Forget all figures and count anew; what was deleted is then no longer in them.",
        )
        add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Counts, and prints one line."""
        alias = database_of(options)
        count = usage.rebuild if options["rebuild"] else usage.roll_up
        counted = count(using=alias)
        until = usage.counted_until(using=alias)
        self.stdout.write(
            f"counted {counted.messages} messages and {counted.sessions} sessions; "
            f"all until {until:%Y-%m-%d %H:%M:%S %Z} are in the figures".replace("  ", " ")
        )
