"""Read pages from a replica that may lag, without showing deleted or redacted content.

Two things may be read from ``AGENT_SESSIONS["REPLICA_DATABASE"]``: lists of sessions, and the
messages of a transcript. Everything else is read from the primary: what an agent continues with,
permissions, writes and audit records.

Each page from the replica is compared with the primary, in one statement by primary key: the
sessions' rows contain the times and counters of the last redaction, change, append and deletion. If
they differ, the page is read from the primary. A stale read therefore never shows content that was
redacted before the request. A list cannot show that a new session is missing, so a user who has
just written reads from the primary for a while;
:func:`django_agent_sessions.serving.middleware.reading_own_writes` sets a cookie for that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from django.db import Error, connections
from django.http import HttpRequest, HttpResponseBase

from django_agent_sessions import conf
from django_agent_sessions.db import bridge
from django_agent_sessions.db.db_errors import is_conflict, is_lost_connection
from django_agent_sessions.models import Session

R = TypeVar("R")
S = TypeVar("S")

logger = logging.getLogger("django_agent_sessions")

COOKIE = "agent_sessions_wrote"
"""Name of the cookie of users who have just written."""

_READ_METHODS = frozenset({"GET", "HEAD"})
_SAFE_METHODS = _READ_METHODS | {"OPTIONS", "TRACE"}
VERSION_ONLY = ("redaction_epoch", "namespace", "scope")
"""Columns that a list of sessions reads only to compare its rows with the primary's."""

_VERSION_COLUMNS = (
    *VERSION_ONLY,
    "redactions",
    "message_count",
    "updated_at",
    "last_activity_at",
    "owner_id",
)


def database_for(request: HttpRequest) -> str:
    """Return the alias of the database to read a page from first."""
    primary = bridge.database()
    replica = conf.get_settings().REPLICA_DATABASE
    if replica is None or request.method not in _READ_METHODS or COOKIE in request.COOKIES:
        return primary
    fresh = "no-cache" in request.headers.get("Cache-Control", "").lower()
    return primary if fresh or connections[primary].in_atomic_block else replica


def read_with_fallback(
    request: HttpRequest, read: Callable[[str], R], fits: Callable[[R], bool] = lambda result: True
) -> R:
    """Read from the replica; read from the primary if the replica fails or its result is stale."""
    primary, alias = bridge.database(), database_for(request)
    if alias != primary:
        try:
            result = read(alias)
            if fits(result):
                return result
        except Error as error:
            _log_unavailable(error)
    return read(primary)


def list_sessions(request: HttpRequest, read: Callable[[str], Sequence[S]]) -> Sequence[S]:
    """Read a page of a list of sessions: instances, or rows with their columns."""
    return read_with_fallback(
        request, read, lambda rows: _has_same_versions(rows, bridge.database())
    )


def database_of(session: Session, request: HttpRequest) -> str:
    """Return the alias of the database to read a session's messages from."""
    return read_with_fallback(
        request, lambda alias: alias, lambda alias: _has_same_versions([session], alias)
    )


def set_primary_cookie(request: HttpRequest, response: HttpResponseBase) -> None:
    """Set the cookie for reading from the primary after a request that may have written."""
    settings = conf.get_settings()
    if settings.REPLICA_DATABASE is not None and request.method not in _SAFE_METHODS:
        response.set_cookie(
            COOKIE,
            "1",
            max_age=max(1, round(settings.REPLICA_LAG_SECONDS)),
            secure=request.is_secure(),
            httponly=True,
            samesite="Lax",
        )


def _has_same_versions(rows: Sequence[Any], alias: str) -> bool:
    """Return whether another database has the same versions of sessions."""
    if not rows:
        return True
    rows_in_alias = Session.objects.using(alias).filter(pk__in=[row.id for row in rows]).order_by()
    versions: set[Any] = set(rows_in_alias.values_list("pk", *_VERSION_COLUMNS))
    return all(
        (row.id, *(getattr(row, column) for column in _VERSION_COLUMNS)) in versions for row in rows
    )


def _log_unavailable(error: Error) -> None:
    """Log that the replica is unavailable or cancelled the query; raise other errors."""
    if not (is_lost_connection(error) or is_conflict(error)):
        raise error
    alias = conf.get_settings().REPLICA_DATABASE
    logger.warning(
        "the replica %r is not available (%s); reading from the primary",
        alias,
        type(error).__name__,
    )
