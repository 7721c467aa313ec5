"""Moments as people read them, in projects with time zones and in those without."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone


def local(moment: datetime) -> datetime:
    """Gives a moment in the viewer's time zone."""
    return timezone.localtime(moment) if timezone.is_aware(moment) else moment
