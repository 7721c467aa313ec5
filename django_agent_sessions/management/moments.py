"""Dates and times on the command line."""

from __future__ import annotations

from datetime import date, datetime, time

from django.conf import settings
from django.core.management.base import CommandError
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from django_agent_sessions.models.querysets import is_valid_in_all_time_zones


def parse_datetime_option(value: str | date, option: str) -> datetime:
    """Parse a date or time; a date is its start in the project's time zone."""
    text = str(value)
    try:
        day = parse_date(text)
        moment = parse_datetime(text) if day is None else datetime.combine(day, time())
    except ValueError as error:
        raise CommandError(f"{option}: {error}") from error
    if moment is None:
        raise CommandError(f"{option}: {text!r} is not a date; use a format such as 2026-01-31")
    if not is_valid_in_all_time_zones(moment):
        raise CommandError(
            f"{option}: {text!r} is out of range in some time zones; use another date"
        )
    return match_use_tz(moment)


def match_use_tz(moment: datetime) -> datetime:
    """Make a time aware or naive, as ``USE_TZ`` requires."""
    if timezone.is_aware(moment) == settings.USE_TZ:
        return moment
    return timezone.make_aware(moment) if settings.USE_TZ else timezone.make_naive(moment)
