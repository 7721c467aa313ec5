"""Delete the originals of redacted messages after their retention time."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from django_agent_sessions.governance.redaction.originals import purge_originals
from django_agent_sessions.management.options import add_database, get_database
from django_agent_sessions.management.terminal import StoppableCommand, pluralize


class Command(StoppableCommand):
    """``manage.py agent_sessions_purge_originals``: intended to run daily."""

    help = (
        "Deletes the originals of messages that were redacted longer ago than "
        "REDACTION_ORIGINAL_TTL, except in sessions under legal hold."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="Only count them.")
        add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        count = purge_originals(
            actor="agent_sessions_purge_originals",
            dry_run=options["dry_run"],
            using=get_database(options),
        )
        done = "would be purged" if options["dry_run"] else "purged"
        self.stdout.write(f"{pluralize(count, 'original')} {done}")
