"""Owners of sessions: what may be passed as ``owner``, and which sessions that reaches.

==================  ============================  ===================================
``owner``           reaches                       creates
==================  ============================  ===================================
a user, or its key  the sessions of this user     sessions of this user
``NOBODY``          sessions without an owner     sessions without an owner
``EVERYBODY``       all sessions                  sessions without an owner, only with
                                                  ``create=True``
==================  ============================  ===================================

``NOBODY`` is the default. ``None`` and anonymous users raise ``ConfigurationError``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db.models import Model, Q

from django_agent_sessions.exceptions import ConfigurationError

NO_KEY = (TypeError, ValueError, OverflowError, ValidationError)
"""What Django raises for a value that cannot be the key of a user."""


class Nobody(enum.Enum):
    """The type of :data:`NOBODY`."""

    NOBODY = "nobody"

    def __repr__(self) -> str:
        return self.name


NOBODY: Final = Nobody.NOBODY
"""The default: only sessions without an owner.

This is not None, because the key of an anonymous or unsaved user is None.
"""


class Everybody(enum.Enum):
    """The type of :data:`EVERYBODY`."""

    EVERYBODY = "everybody"

    def __repr__(self) -> str:
        return self.name


EVERYBODY: Final = Everybody.EVERYBODY
"""All sessions, with any owner or none: for code that checks access itself.

A session is then created only with ``create=True``, so that a mistyped id is an error.
"""

OTHERS = (
    "omit it for sessions without an owner (owner=NOBODY), or pass owner=EVERYBODY in code that "
    "may access all sessions"
)
"""The end of error texts: the values of ``owner`` besides users."""


def refuse_none(owner: Any) -> None:
    """Refuse None as an owner, without evaluating a lazy ``request.user``."""
    if owner is None:
        raise ConfigurationError(
            "the owner is None, as is the key of an anonymous or unsaved user: require a login and "
            f"pass owner=user; {OTHERS}"
        )


def owner_key(owner: Any) -> Any:
    """Return the primary key of an owner."""
    if owner is NOBODY or owner is EVERYBODY:
        return owner
    refuse_none(owner)
    users = get_user_model()
    known_as: Any = owner
    if isinstance(owner, Model):
        if not isinstance(owner, users):
            raise ConfigurationError(
                f"the owner must be a user ({users._meta.label}) or a user's primary key, not a "
                f"{type(owner).__name__}"
            )
        # A key with a default is there before the user is.
        unsaved = owner._state.adding and users._meta.pk.has_default()
        known_as = None if unsaved else owner.pk
    elif hasattr(owner, "is_authenticated"):
        known_as = getattr(owner, "pk", None) if owner.is_authenticated else None
    if known_as is None:
        raise ConfigurationError(
            "the owner is an anonymous or unsaved user, who cannot own sessions: require a login "
            f"and pass owner=user; {OTHERS}"
        )
    try:
        if _is_no_integer(known_as):
            raise TypeError
        return users._meta.pk.to_python(known_as)
    except NO_KEY:
        # Not the value, which may be a name.
        raise ConfigurationError(
            f"the owner must be a user or a user's primary key; this {type(owner).__name__} is "
            "neither"
        ) from None


def _is_no_integer(value: Any) -> bool:
    """Return whether Django would convert this value to a number, but it is not an integer."""
    if isinstance(value, bool | float | bytes | bytearray | memoryview):
        return True
    return isinstance(value, Decimal) and value != int(value)


def reached(key: Any, column: str = "owner") -> Q:
    """Return the condition for rows of an owner's key; an empty one for ``EVERYBODY``."""
    return Q() if key is EVERYBODY else Q(**{column: None if key is NOBODY else key})


@dataclass(frozen=True, slots=True)
class Reach:
    """The sessions that are reached: those of an owner, those without an owner, or all."""

    owner: Any

    @property
    def key(self) -> Any:
        """A user's primary key, ``NOBODY`` or ``EVERYBODY``.

        Resolved at each use, because a lazy ``request.user`` queries the database, which a
        constructor in an event loop must not do.

        Raises:
            ConfigurationError: The owner is a user who cannot own sessions.
        """
        return owner_key(self.owner)

    @property
    def owner_id(self) -> Any:
        """Primary key of the owner of new rows; None for no owner."""
        key = self.key
        return None if key is NOBODY or key is EVERYBODY else key

    def includes(self, owner_id: Any) -> bool:
        """Return whether rows with this owner, or without one (None), are reached."""
        key = self.key
        return key is EVERYBODY or owner_id == (None if key is NOBODY else key)

    def condition(self, column: str = "owner") -> Q:
        """Return the condition for rows that are reached; an empty one for ``EVERYBODY``."""
        return reached(self.key, column)
