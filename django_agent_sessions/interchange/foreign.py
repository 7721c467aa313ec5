"""Values from elsewhere, taken only if they could have been made here."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils import timezone

LARGEST = 2**30
"""The largest whole number that is taken: every database counts on from it for long."""

_MOST_KEPT = 100_000


def moment(value: Any) -> datetime | None:
    """Takes a time."""
    if not isinstance(value, datetime) or not 1900 <= value.year <= 9990:
        return None
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return aware if settings.USE_TZ else timezone.make_naive(aware)


def count(value: Any) -> int | None:
    """Takes a number."""
    return value if type(value) is int and 0 <= value <= LARGEST else None


def is_window(value: Any) -> bool:
    """Tells whether a value says which messages an agent had in memory."""
    if value is None:
        return True
    if not isinstance(value, dict) or count(value.get("tail")) is None:
        return False
    kept = value.get("kept")
    return (
        isinstance(kept, list)
        and len(kept) <= _MOST_KEPT
        and all(count(position) is not None for position in kept)
    )


def key(value: Any, now: datetime) -> UUID | None:
    """Takes a primary key. One of the future would stand behind all that is said from now on."""
    if not isinstance(value, UUID) or value.version != 7:
        return None
    return value if (value.int >> 80) / 1000 <= now.timestamp() + 1 else None
