"""Validation of untrusted values; an invalid value becomes None."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from django_agent_sessions.content.json_values import has_more_values
from django_agent_sessions.values.ids import is_primary_key

MAX_INTEGER = 2**30
"""The largest accepted integer, which leaves room for counting on in every database."""

_MAX_KEPT = 10_000
_BYTES_PER_VALUE = 64
_FEWEST_VALUES = 10_000


def excess_values(text: bytes, limit: int) -> int | None:
    """Return how many values JSON may have, if it has more; else None.

    ``limit`` is the largest size of the text in bytes; values are limited to one for each 64 of
    them, so that the parsed text takes at most about twice the limit.
    """
    most = max(_FEWEST_VALUES, limit // _BYTES_PER_VALUE)
    return most if has_more_values(text, most) else None


def valid_time(value: Any) -> datetime | None:
    """Return a valid time in the project's time zone setting, else None."""
    if not isinstance(value, datetime) or not 1900 <= value.year <= 9990:
        return None
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return aware if settings.USE_TZ else timezone.make_naive(aware)


def valid_count(value: Any) -> int | None:
    """Return a valid count, else None."""
    return value if type(value) is int and 0 <= value <= MAX_INTEGER else None


def is_valid_window(value: Any) -> bool:
    """Return whether a value is a valid window, the messages that an agent had in memory."""
    if value is None:
        return True
    if not isinstance(value, dict) or valid_count(value.get("tail")) is None:
        return False
    kept = value.get("kept")
    return isinstance(kept, list) and len(kept) <= _MAX_KEPT and all(map(_is_valid_reference, kept))


def _is_valid_reference(value: Any) -> bool:
    if isinstance(value, dict):
        return "message" in value and (
            "position" not in value or valid_count(value["position"]) is not None
        )
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(valid_count(position) is not None for position in value)
        and value[0] < value[1]
    )


def valid_key(value: Any, now: datetime) -> UUID | None:
    """Return a valid UUIDv7 key, else None. A future key would sort after new messages."""
    if not isinstance(value, UUID) or not is_primary_key(value):
        return None
    return value if (value.int >> 80) / 1000 <= now.timestamp() + 1 else None
