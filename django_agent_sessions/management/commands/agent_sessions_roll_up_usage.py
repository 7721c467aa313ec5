"""Count new messages for the usage page."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from django_agent_sessions import usage
from django_agent_sessions.management.options import add_database, get_database
from django_agent_sessions.management.terminal import StoppableCommand


class Command(StoppableCommand):
    """``manage.py agent_sessions_roll_up_usage``: intended to run about every 15 minutes."""

    help = "Counts new messages, sessions, tokens and latencies of agents since the last run."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--rebuild",
            action="store_true",
            help="Delete all figures and count again; deleted messages are no longer included.",
        )
        add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        alias = get_database(options)
        run = usage.rebuild if options["rebuild"] else usage.roll_up
        counted = run(using=alias)
        until = usage.counted_until(using=alias)
        self.stdout.write(
            f"counted {counted.messages} messages and {counted.sessions} sessions; "
            f"the figures are complete until {until:%Y-%m-%d %H:%M:%S %Z}".replace("  ", " ")
        )
