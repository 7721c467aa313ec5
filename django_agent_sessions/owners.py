"""Who owns sessions: what may be given as an owner, and whose sessions that reaches."""

from __future__ import annotations

import enum
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db.models import Model

from .exceptions import ConfigurationError

NO_KEY = (TypeError, ValueError, OverflowError, ValidationError)
"""What Django raises for a value that cannot be the key of a user."""


class Everybody(enum.Enum):
    """The type of :data:`EVERYBODY`."""

    EVERYBODY = "everybody"

    def __repr__(self) -> str:
        return self.name


EVERYBODY: Final = Everybody.EVERYBODY
"""No owner: the sessions of everybody, for code that decides by itself who may see what.

It is not None, which is what the key of an anonymous or unsaved user is.
"""


def refuse_nobody(owner: Any) -> None:
    """Refuses None as an owner, without looking at a lazy ``request.user``."""
    if owner is None:
        raise ConfigurationError(
            "the owner is None, as is the key of an anonymous or unsaved user: require a login, "
            "or leave the owner out where the code may reach the sessions of everybody"
        )


def owner_key(owner: Any) -> Any:
    """Finds the primary key of an owner."""
    if owner is EVERYBODY:
        return None
    refuse_nobody(owner)
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
            "the owner is an anonymous or unsaved user, who can own no sessions: require a login"
        )
    try:
        if isinstance(known_as, bool):
            raise TypeError
        return users._meta.pk.to_python(known_as)
    except NO_KEY:
        # Not the value, which may be a name.
        raise ConfigurationError(
            f"the owner must be a user or a user's primary key; this {type(owner).__name__} is "
            "neither"
        ) from None
