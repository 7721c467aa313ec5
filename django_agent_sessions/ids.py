"""Ids: the keys that rows are made with, and what a caller may call a session."""

from __future__ import annotations

import secrets
import sys
import unicodedata
from datetime import UTC, datetime, timedelta
from uuid import UUID

from .exceptions import InvalidIdError

if sys.version_info >= (3, 14):
    from uuid import uuid7 as _uuid7
else:
    from uuid_utils.compat import uuid7 as _uuid7

MAX_ID_LENGTH = 255
"""The most characters an id may have: what every supported database can index beside another."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RELATIVE_PATHS = frozenset({".", ".."})
_UNSTORABLE_CATEGORIES = frozenset({"Cc", "Cs"})


def new_id() -> UUID:
    """Makes a primary key: a UUIDv7, ordered by time and not guessable.

    The client makes it, so that the retry of an insert is the same row.
    """
    return _uuid7()


def id_at(moment: datetime, place: int) -> UUID:
    """Makes a primary key for something of the past, to stand where it belongs in time."""
    place = min(max(place, 0), 2**24 - 1)
    random = (place >> 12) << 64 | (place & 0xFFF) << 50 | secrets.randbits(50)
    return UUID(int=first_id_at(moment).int | random)


def first_id_at(moment: datetime) -> UUID:
    """Makes the least primary key of a moment, to find by their keys what was made since."""
    aware = moment.astimezone() if moment.tzinfo is None else moment
    milliseconds = min(max((aware - _EPOCH) // timedelta(milliseconds=1), 0), 2**48 - 1)
    return UUID(int=milliseconds << 80 | 0x7 << 76 | 0b10 << 62)


def made_at(key: UUID) -> datetime:
    """Reads off a primary key when it was made."""
    return _EPOCH + timedelta(milliseconds=key.int >> 80)


def validate_id(value: object, name: str = "session_id") -> str:
    """Checks an id that a caller chose.

    Ids are data: slashes, quotes, markup and every script are fine. What cannot be told apart on
    a screen, or names a directory in the file layouts, is not.
    """
    if not isinstance(value, str):
        raise InvalidIdError(f"{name} must be a string, not {type(value).__name__}")
    if not value.strip():
        raise InvalidIdError(f"{name} must not be blank")
    if value in _RELATIVE_PATHS:
        raise InvalidIdError(f"{name} must not be {value!r}")
    if len(value) > MAX_ID_LENGTH:
        raise InvalidIdError(
            f"{name} has {len(value)} characters; at most {MAX_ID_LENGTH} are possible"
        )
    if not value.isprintable() and any(
        unicodedata.category(character) in _UNSTORABLE_CATEGORIES for character in value
    ):
        raise InvalidIdError(f"{name} must not hold control characters or lone surrogates")
    return value


def validate_namespace(value: object) -> str:
    """Checks a namespace: an id that may also be empty."""
    return "" if value == "" else validate_id(value, "namespace")
