"""Moments that somebody types on a command line."""

from __future__ import annotations

from datetime import date, datetime, time

from django.conf import settings
from django.core.management.base import CommandError
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from django_agent_sessions.querysets import is_in_any_calendar


def read_moment(given: str | date, option: str) -> datetime:
    """Reads a moment; of a day, its beginning in the project's time zone."""
    text = str(given)
    try:
        day = parse_date(text)
        moment = parse_datetime(text) if day is None else datetime.combine(day, time())
    except ValueError as error:
        raise CommandError(f"{option}: {error}") from error
    if moment is None:
        raise CommandError(f"{option}: {text!r} is no date; write it like 2026-01-31")
    if not is_in_any_calendar(moment):
        raise CommandError(
            f"{option}: {text!r} is at the edge of the calendar; choose another date"
        )
    return in_our_time(moment)


def in_our_time(moment: datetime) -> datetime:
    """Gives a moment a time zone exactly where the project's times have one."""
    if timezone.is_aware(moment) == settings.USE_TZ:
        return moment
    return timezone.make_aware(moment) if settings.USE_TZ else timezone.make_naive(moment)
