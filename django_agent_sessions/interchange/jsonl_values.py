"""Type checks for the untrusted values of a JSON Lines file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from django_agent_sessions.exceptions import InvalidIdError
from django_agent_sessions.values.ids import validate_id


class InvalidValueError(Exception):
    """A value does not conform to the format. The text names keys and contains no content."""


def check_word(row: Mapping[str, Any], name: str) -> None:
    """Require a short text to be empty or valid as an id."""
    if row.get(name):
        try:
            validate_id(row[name], name)
        except InvalidIdError as error:
            raise InvalidValueError(str(error)) from None


def as_dict(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidValueError(f"{what} is not an object")
    return value


def as_list(row: Mapping[str, Any], name: str) -> Sequence[Any]:
    value = row.get(name, [])
    if not isinstance(value, list):
        raise InvalidValueError(f"its {name} is not a list")
    return value


def as_time(row: Mapping[str, Any], name: str) -> datetime | None:
    value = row.get(name)
    if value is None:
        return None
    try:
        found = datetime.fromisoformat(value)
        # Older exports of projects without USE_TZ have naive times.
        return timezone.make_aware(found) if timezone.is_naive(found) else found
    except (TypeError, ValueError, OverflowError):
        raise InvalidValueError(f"its {name} is not a time") from None


def as_uuid(row: Mapping[str, Any], name: str) -> UUID | None:
    value = row.get(name)
    if value is None:
        return None
    try:
        return UUID(value)
    except (TypeError, ValueError, AttributeError):
        raise InvalidValueError(f"its {name} is not a UUID") from None
