"""Owners of imported sessions: one user, a CSV file, a function of the project, or the source."""

from __future__ import annotations

import contextlib
import csv
import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.utils.module_loading import import_string

from django_agent_sessions.db import bridge
from django_agent_sessions.exceptions import ConfigurationError, SessionNotFoundError
from django_agent_sessions.models.users import users
from django_agent_sessions.values.owners import EVERYBODY, NO_KEY, NOBODY, owner_key

from .sources import Skipped, SourceSession

OwnerOf = Callable[..., Any]
"""Returns a session's owner: a user, that user's primary key, or ``NOBODY``."""


def owner_of(owner: Any) -> Callable[[SourceSession, str], Any]:
    """Return a function that returns a session's owner: a user's key or ``NOBODY``."""
    if callable(owner):
        known: set[Any] = set()

        def find(found: SourceSession, using: str) -> Any:
            key = getattr(answer := owner(found), "pk", answer)
            if key is None:
                raise ConfigurationError(
                    "the owner function returned None: return NOBODY for sessions without an "
                    "owner, and import again"
                )
            _refuse_everybody(key)
            if key is not NOBODY and key not in known:
                _require_user(key, using)
                known.add(key)
            return key

        return find
    _refuse_everybody(owner)
    key = owner_key(owner)
    return lambda found, using: key


def _refuse_everybody(owner: Any) -> None:
    if owner is EVERYBODY:
        raise ConfigurationError(
            "EVERYBODY cannot own sessions: import with a user, or with owner=NOBODY for "
            "sessions without an owner"
        )


def owners_from_csv(
    path: str | Path, *, using: str | None = None, told: Callable[[Skipped], None] | None = None
) -> OwnerOf:
    """Read the owners of sessions from a CSV file.

    Args:
        path: A CSV file with the columns ``session_id`` and one of ``user`` (a primary key or a
            user name), ``user_id`` and ``username``. Sessions that are not in the file have no
            owner.
        using: The database alias.
        told: Called for each line with a session but no user.

    Returns:
        A function for ``import_sessions(owner=…)``. It raises ``SessionNotFoundError`` for a
        session whose user does not exist or is ambiguous.

    Raises:
        ConfigurationError: The file cannot be read, has no such columns, or names two users for
            one session.
    """
    users_by_session, column = _rows(path, told or (lambda skipped: None))

    @functools.lru_cache(maxsize=100_000)
    def key_of(name: str) -> Any:
        return find_user(name, column, using=using)

    def find(found: SourceSession) -> Any:
        name = users_by_session.get(found.session_id, "")
        return key_of(name) if name else NOBODY

    return find


def owners_from_function(path: str) -> OwnerOf:
    """Return a function of the project that determines the owners of sessions.

    Args:
        path: The dotted path of the function. It takes a :class:`~.sources.SourceSession` and
            returns a user, a user's primary key, or ``NOBODY``.

    Returns:
        A function for ``import_sessions(owner=…)``. It raises ``ConfigurationError`` if the
        project's function raises an exception.

    Raises:
        ConfigurationError: The function does not exist.
    """
    try:
        found = import_string(path)
    except ImportError as error:
        raise ConfigurationError(f"the owner function {path!r} cannot be imported") from error
    if not callable(found):
        raise ConfigurationError(f"the owner function {path!r} is not a function")

    def find(session: SourceSession) -> Any:
        try:
            return found(session)
        except Exception as error:
            # Without the text of the error, which may contain content.
            raise ConfigurationError(
                f"the owner function {path!r} raised {type(error).__name__}: return NOBODY "
                "for sessions without an owner, and import again"
            ) from error

    return find


def owners_from_source(*, using: str | None = None) -> OwnerOf:
    """Return a function that keeps the owners of a source, found by their user names.

    Use it only for a source that you trust, because it decides who may read its sessions.

    Args:
        using: The database alias.

    Returns:
        A function for ``import_sessions(owner=…)``. It raises ``SessionNotFoundError`` for a
        session whose owner does not exist here, and ``ConfigurationError`` for a source that
        does not name owners.
    """

    @functools.lru_cache(maxsize=100_000)
    def key_of(name: str) -> Any:
        key = key_of_name(name, using=using)
        if key is None:
            raise SessionNotFoundError(f"user {name!r} does not exist")
        return key

    def find(session: SourceSession) -> Any:
        if "owner" not in session.columns:
            raise ConfigurationError(
                "this source does not name owners: pass a user or a function that returns one"
            )
        owner = session.columns["owner"]
        if owner is None:
            return NOBODY
        name = owner.get("username") if isinstance(owner, dict) else None
        if not isinstance(name, str):
            raise SessionNotFoundError("the source does not name a user")
        return key_of(name)

    return find


def key_of_name(name: str, *, using: str | None = None) -> Any:
    """Return the primary key of the user with exactly this name, or None."""
    # PostgreSQL would reject NUL, and abort a transaction.
    if "\0" in name:
        return None
    field = get_user_model().USERNAME_FIELD
    # No name contains half a surrogate pair.
    with contextlib.suppress(ValueError):
        rows = users(bridge.database(using)).filter(**{field: name})
        # Compared here too, because a database may ignore case.
        return next((key for key, stored in rows.values_list("pk", field) if stored == name), None)
    return None


def find_user(name: str, column: str = "user", *, using: str | None = None) -> Any:
    """Return a user's primary key; raise if it does not exist or is ambiguous."""
    rows = users(bridge.database(using))
    found = set()
    if column in ("user", "username"):
        found |= set(
            rows.filter(**{get_user_model().USERNAME_FIELD: name}).values_list("pk", flat=True)[:2]
        )
    if column in ("user", "user_id"):
        with contextlib.suppress(*NO_KEY):
            found |= set(rows.filter(pk=name).values_list("pk", flat=True))
    if not found:
        raise SessionNotFoundError(f"user {name!r} does not exist")
    if len(found) > 1:
        raise SessionNotFoundError(
            f"{name!r} is the name of one user and the key of another: rename the column to "
            "user_id or username"
        )
    return found.pop()


def _require_user(key: Any, using: str) -> None:
    try:
        exists = users(using).filter(pk=key).exists()
    except NO_KEY:
        exists = False
    if not exists:
        raise SessionNotFoundError(f"no user has the key {key!r}")


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
            return _users_by_session(path, found, told), column
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigurationError(f"{path} cannot be read as comma-separated values") from error


def _users_by_session(
    path: str | Path, rows: Iterable[tuple[str, str, int]], told: Callable[[Skipped], None]
) -> dict[str, str]:
    """Return the users by session; raise if a session has two users."""
    found: dict[str, str] = {}
    lines: dict[str, int] = {}
    for session_id, name, line in rows:
        user = name.strip()
        if found.get(session_id, user) != user:
            raise ConfigurationError(
                f"{path}: lines {lines[session_id]} and {line} give different users for session "
                f"{session_id!r}: keep only one of them"
            )
        if not user:
            reason = f"no user is given for session {session_id!r}: it is imported without an owner"
            told(Skipped(f"{path}, line {line}", reason, error=False))
        found[session_id] = user
        lines.setdefault(session_id, line)
    return found
