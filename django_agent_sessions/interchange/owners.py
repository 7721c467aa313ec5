"""Who owns what is imported: one user, a list in a file, or a function of the project's own."""

from __future__ import annotations

import contextlib
import csv
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.utils.module_loading import import_string

from django_agent_sessions.exceptions import ConfigurationError, SessionNotFoundError

from .sources import SourceSession

_NO_KEY = (TypeError, ValueError, OverflowError, ValidationError)

OwnerOf = Callable[..., Any]
"""Gives the primary key of a session's owner, or None for nobody."""


def owner_of(owner: Any) -> Callable[[SourceSession, str], Any]:
    """Makes a function of whatever says who owns a session.

    Args:
        owner: A user, a user's primary key, None, or a function of a session.

    Returns:
        A function of a session and the alias of the database.
    """
    if callable(owner):
        known: set[Any] = set()

        def find(found: SourceSession, using: str) -> Any:
            key = getattr(answer := owner(found), "pk", answer)
            if key is not None and key not in known:
                _check(key, using)
                known.add(key)
            return key

        return find
    key = getattr(owner, "pk", owner)
    return lambda found, using: key


def owners_from_csv(path: str | Path, *, using: str | None = None) -> OwnerOf:
    """Reads who owns which session.

    Args:
        path: A file of comma-separated values with the columns ``session_id`` and one of ``user``
            (a primary key or a user name), ``user_id`` and ``username``. Sessions that are not
            in it are nobody's.
        using: The alias of the database.

    Returns:
        A function for ``import_sessions(owner=…)``. It raises ``SessionNotFoundError`` for a
        session whose user does not exist, or could be two.

    Raises:
        ConfigurationError: The file cannot be read, or has no such columns.
    """
    named, column = _rows(path)

    @functools.lru_cache(maxsize=100_000)
    def key_of(name: str) -> Any:
        return find_user(name, column, using=using)

    def find(found: SourceSession) -> Any:
        name = named.get(found.session_id, "")
        return key_of(name) if name else None

    return find


def owners_from_function(path: str) -> OwnerOf:
    """Finds a function of the project's own.

    Args:
        path: Its dotted path. It takes a :class:`~.sources.SourceSession` and returns a user, a
            user's primary key, or None for nobody.

    Returns:
        The function.

    Raises:
        ConfigurationError: There is no such function.
    """
    try:
        found = import_string(path)
    except ImportError as error:
        raise ConfigurationError(f"the owner function {path!r} cannot be imported") from error
    if not callable(found):
        raise ConfigurationError(f"the owner function {path!r} is no function")
    owner: OwnerOf = found
    return owner


def find_user(name: str, column: str = "user", *, using: str | None = None) -> Any:
    """Finds a user.

    Args:
        name: A primary key or user name.
        column: Which of the two it is: ``user_id``, ``username``; or ``user`` for either.
        using: The alias of the database.

    Returns:
        The primary key.

    Raises:
        SessionNotFoundError: There is no such user; or one has as a name what another has as key.
    """
    model = get_user_model()
    users = model._default_manager.using(using)
    found = set()
    if column in ("user", "username"):
        found |= set(users.filter(**{model.USERNAME_FIELD: name}).values_list("pk", flat=True)[:2])
    if column in ("user", "user_id"):
        with contextlib.suppress(*_NO_KEY):
            found |= set(users.filter(pk=name).values_list("pk", flat=True))
    if not found:
        raise SessionNotFoundError(f"there is no user {name!r}")
    if len(found) > 1:
        raise SessionNotFoundError(
            f"{name!r} is the name of one user and the key of another: call the column user_id or "
            "username"
        )
    return found.pop()


def _check(key: Any, using: str) -> None:
    try:
        there = get_user_model()._default_manager.using(using).filter(pk=key).exists()
    except _NO_KEY:
        there = False
    if not there:
        raise SessionNotFoundError(f"there is no user with the key {key!r}")


def _rows(path: str | Path) -> tuple[Mapping[str, str], str]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            names = rows.fieldnames or ()
            column = next((n for n in ("user_id", "username", "user") if n in names), None)
            if "session_id" not in names or column is None:
                raise ConfigurationError(
                    f"{path}: the first line must name the columns session_id and user"
                )
            return {row["session_id"]: (row[column] or "").strip() for row in rows}, column
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigurationError(f"{path} cannot be read as comma-separated values") from error
