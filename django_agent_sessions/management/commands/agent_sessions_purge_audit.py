"""Delete old audit events, where the law limits their retention."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from django_agent_sessions import audit
from django_agent_sessions.management.options import (
    add_database,
    get_database,
    match_use_tz,
    parse_datetime_option,
)
from django_agent_sessions.management.terminal import StoppableCommand
from django_agent_sessions.models import AuditEvent


class Command(StoppableCommand):
    """``manage.py agent_sessions_purge_audit``."""

    help = "Deletes the audit events before a date. Otherwise only AUDIT_EVENTS in RETENTION does."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--before",
            required=True,
            metavar="DATE",
            help="The first date or time to keep: 2026-01-31 or 2026-01-31T12:00+00:00.",
        )
        parser.add_argument("--dry-run", action="store_true", help="Only count them.")
        add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        before = parse_datetime_option(options["before"], "--before")
        if before > match_use_tz(timezone.now()):
            raise CommandError("--before is in the future and would delete every event")
        using = get_database(options)
        if options["dry_run"]:
            count = AuditEvent.objects.using(using).filter(created_at__lt=before).count()
            self.stdout.write(f"{count} audit events would be deleted")
        else:
            count = audit.purge(before, using=using)
            self.stdout.write(f"{count} audit events were deleted")
