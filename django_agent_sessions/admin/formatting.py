"""Times and numbers as the admin shows them."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone
from django.utils.formats import date_format, number_format
from django.utils.translation import gettext as _


def to_local_time(moment: datetime) -> datetime:
    """Convert an aware time to the current time zone; return a naive one unchanged."""
    return timezone.localtime(moment) if timezone.is_aware(moment) else moment


def format_moment(moment: datetime, name: str) -> str:
    """Format a time in the current time zone; ``name`` is a format or the name of a setting."""
    return str(date_format(to_local_time(moment), name))


def format_compact(value: float) -> str:
    """Format a number with a unit prefix, such as 1.2k."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return _format_rounded(value / size, 100) + letter
    return _format_rounded(value)


def format_duration(milliseconds: float | None) -> str:
    """Format milliseconds; None becomes a dash."""
    if milliseconds is None:
        return "–"
    if milliseconds < 1000:
        return _("%s ms") % number_format(round(milliseconds), 0)
    if milliseconds < 120_000:
        return _("%s s") % _format_rounded(milliseconds / 1000)
    return _("%s min") % _format_rounded(milliseconds / 60_000)


def format_tokens(tokens: int | None) -> str:
    """Format a number of tokens; None, which no SDK reported, becomes a word."""
    return _("unknown") if tokens is None else format_integer(tokens)


def format_integer(value: float) -> str:
    """Format a number as a grouped integer."""
    return str(number_format(round(value), 0, force_grouping=True))


def _format_rounded(value: float, integers_from: float = 10) -> str:
    digits = 1 if value < integers_from and round(value, 1) != round(value) else 0
    return str(number_format(round(value, digits), digits))
