"""Who owns what is imported: one user, a list in a file, or a function of the project's own."""

from __future__ import annotations

import contextlib
import csv
import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.utils.module_loading import import_string

from django_agent_sessions.exceptions import ConfigurationError, SessionNotFoundError
from django_agent_sessions.owners import EVERYBODY, NO_KEY, NOBODY, owner_key

from .sources import Skipped, SourceSession

OwnerOf = Callable[..., Any]
"""Returns a session's owner: a user, that user's primary key, or ``NOBODY``."""


def owner_of(owner: Any) -> Callable[[SourceSession, str], Any]:
    """Makes a function of whatever says who owns a session.

    Args:
        owner: A user, a user's primary key, ``NOBODY``, or a function of a session.

    Returns:
        A function of a session and the alias of the database.

    Raises:
        ConfigurationError: It is nobody who could own a session, or ``EVERYBODY``.
    """
    if callable(owner):
        known: set[Any] = set()

        def find(found: SourceSession, using: str) -> Any:
            key = getattr(answer := owner(found), "pk", answer)
            if key is None:
                raise ConfigurationError(
                    "the owner function returned None for it: let it return NOBODY for a session "
                    "without an owner, and import again"
                )
            _refuse_everybody(key)
            if key is not NOBODY and key not in known:
                _check(key, using)
                known.add(key)
            return key

        return find
    _refuse_everybody(owner)
    key = owner_key(owner)
    return lambda found, using: key


def _refuse_everybody(owner: Any) -> None:
    if owner is EVERYBODY:
        raise ConfigurationError(
            "EVERYBODY owns no session: import with a user, or with owner=NOBODY for sessions "
            "without an owner"
        )


def owners_from_csv(
    path: str | Path, *, using: str | None = None, told: Callable[[Skipped], None] | None = None
) -> OwnerOf:
    """Reads who owns which session.

    Args:
        path: A file of comma-separated values with the columns ``session_id`` and one of ``user``
            (a primary key or a user name), ``user_id`` and ``username``. Sessions that are not
            in it are nobody's.
        using: The alias of the database.
        told: Is told of each line that names a session and no user.

    Returns:
        A function for ``import_sessions(owner=…)``. It raises ``SessionNotFoundError`` for a
        session whose user does not exist, or could be two.

    Raises:
        ConfigurationError: The file cannot be read, has no such columns, or gives a session to
            two users.
    """
    named, column = _rows(path, told or (lambda skipped: None))

    @functools.lru_cache(maxsize=100_000)
    def key_of(name: str) -> Any:
        return find_user(name, column, using=using)

    def find(found: SourceSession) -> Any:
        name = named.get(found.session_id, "")
        return key_of(name) if name else NOBODY

    return find


def owners_from_function(path: str) -> OwnerOf:
    """Finds a function of the project's own.

    Args:
        path: Its dotted path. It takes a :class:`~.sources.SourceSession` and returns a user, a
            user's primary key, or ``NOBODY``.

    Returns:
        A function for ``import_sessions(owner=…)``. It raises ``ConfigurationError`` for a session
        for which the project's own raises anything.

    Raises:
        ConfigurationError: There is no such function.
    """
    try:
        found = import_string(path)
    except ImportError as error:
        raise ConfigurationError(f"the owner function {path!r} cannot be imported") from error
    if not callable(found):
        raise ConfigurationError(f"the owner function {path!r} is no function")

    def find(session: SourceSession) -> Any:
        try:
            return found(session)
        except Exception as error:
            # Its words may be anything, and it may not know of this session only.
            raise ConfigurationError(
                f"the owner function {path!r} raised {type(error).__name__} for it: let it return "
                "NOBODY for a session without an owner, and import again"
            ) from error

    return find


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
        with contextlib.suppress(*NO_KEY):
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
    except NO_KEY:
        there = False
    if not there:
        raise SessionNotFoundError(f"there is no user with the key {key!r}")


def _rows(path: str | Path, told: Callable[[Skipped], None]) -> tuple[Mapping[str, str], str]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            names = rows.fieldnames or ()
            column = next((n for n in ("user_id", "username", "user") if n in names), None)
            if "session_id" not in names or column is None:
                semicolons = any(";" in name for name in names)
                raise ConfigurationError(
                    f"{path}: the first line must name the columns session_id and user"
                    + (", with commas between them and not semicolons" if semicolons else "")
                )
            found = ((row["session_id"], row[column] or "", rows.line_num) for row in rows)
            return _once_each(path, found, told), column
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigurationError(f"{path} cannot be read as comma-separated values") from error


def _once_each(
    path: str | Path, rows: Iterable[tuple[str, str, int]], told: Callable[[Skipped], None]
) -> dict[str, str]:
    """Takes session, user and line of each row; no session is given to two users."""
    found: dict[str, str] = {}
    lines: dict[str, int] = {}
    for session_id, name, line in rows:
        user = name.strip()
        if found.get(session_id, user) != user:
            raise ConfigurationError(
                f"{path}: lines {lines[session_id]} and {line} name different users for session "
                f"{session_id!r}: leave only one of them"
            )
        if not user:
            why = f"there is no user for session {session_id!r}, which is nobody's by that"
            told(Skipped(f"{path}, line {line}", why, error=False))
        found[session_id] = user
        lines.setdefault(session_id, line)
    return found
