"""Values of a file of JSON Lines, each checked for its type: nothing in it is believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from django_agent_sessions.exceptions import InvalidIdError
from django_agent_sessions.ids import validate_id


class OddError(Exception):
    """Something is not what the format says. Its words are names of members, never content."""


def check_word(row: Mapping[str, Any], name: str) -> None:
    """Checks a short text as an id is checked, save that it may be empty."""
    if row.get(name):
        try:
            validate_id(row[name], name)
        except InvalidIdError as error:
            raise OddError(str(error)) from None


def as_dict(value: Any, what: str) -> Mapping[str, Any]:
    """Takes an object."""
    if not isinstance(value, dict):
        raise OddError(f"{what} is no object")
    return value


def as_list(row: Mapping[str, Any], name: str) -> Sequence[Any]:
    """Takes a list."""
    value = row.get(name, [])
    if not isinstance(value, list):
        raise OddError(f"its {name} are no list")
    return value


def as_time(row: Mapping[str, Any], name: str) -> datetime | None:
    """Takes a time."""
    value = row.get(name)
    if value is None:
        return None
    try:
        found = datetime.fromisoformat(value)
        # As a project without time zones wrote it before exports told the zone.
        return timezone.make_aware(found) if timezone.is_naive(found) else found
    except (TypeError, ValueError, OverflowError):
        raise OddError(f"its {name} is no time") from None


def as_uuid(row: Mapping[str, Any], name: str) -> UUID | None:
    """Takes a primary key."""
    value = row.get(name)
    if value is None:
        return None
    try:
        return UUID(value)
    except (TypeError, ValueError, AttributeError):
        raise OddError(f"its {name} is no UUID") from None
