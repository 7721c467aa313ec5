"""``manage.py purge_audit_events``: deletes old audit events, where the law sets a term."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from django_agent_sessions import audit
from django_agent_sessions.management.databases import add_database, database_of
from django_agent_sessions.management.moments import in_our_time, read_moment
from django_agent_sessions.management.stopping import StoppableCommand
from django_agent_sessions.models import AuditEvent


class Command(StoppableCommand):
    """Deletes audit events that are older than a date."""

    help = "Deletes the audit events from before a date. There is no other way to delete any."

    def add_arguments(self, parser: CommandParser) -> None:
        """Adds the options."""
        parser.add_argument(
            "--before",
            required=True,
            metavar="DATE",
            help="The first day, or moment, that is kept: 2026-01-31 or 2026-01-31T12:00+00:00.",
        )
        parser.add_argument("--dry-run", action="store_true", help="Only tell how many there are.")
        add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Deletes, and says how many there were."""
        before = read_moment(options["before"], "--before")
        if before > in_our_time(timezone.now()):
            raise CommandError("--before lies in the future; that would delete every event")
        using = database_of(options)
        if options["dry_run"]:
            count = AuditEvent.objects.using(using).filter(created_at__lt=before).count()
            self.stdout.write(f"{count} audit events would be deleted")
        else:
            count = audit.purge(before, using=using)
            self.stdout.write(f"{count} audit events were deleted")
