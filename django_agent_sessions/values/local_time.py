"""Times in the current time zone, for people."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone


def to_local_time(moment: datetime) -> datetime:
    """Convert an aware time to the current time zone; return a naive one unchanged."""
    return timezone.localtime(moment) if timezone.is_aware(moment) else moment
