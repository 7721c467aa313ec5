"""Showing pages from a replica that may be behind, without showing what is gone.

Two things may come from ``AGENT_SESSIONS["REPLICA_DATABASE"]``: a list of sessions, and the
messages of a transcript. All else is asked of the primary: what an agent goes on with, what is
written, what decides whether somebody may read or write, and what is recorded.

A replica answers late, so each page is compared with the primary, in one statement by primary
key: the sessions' rows say when something was last redacted, changed, added or deleted. Where they
differ, the primary shows the page. So nobody sees on it what was redacted before it was asked
for. A list, however, cannot say what is not on it yet, so who has just written reads from the
primary for a while; :func:`django_agent_sessions.middleware.reading_own_writes` remembers that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from django.db import Error, connections
from django.http import HttpRequest, HttpResponseBase

from . import bridge, conf
from .models import Session
from .transient import is_conflict, is_lost_connection

R = TypeVar("R")

logger = logging.getLogger("django_agent_sessions")

COOKIE = "agent_sessions_wrote"
"""The cookie of somebody who has just written."""

_READING = frozenset({"GET", "HEAD"})
_SAFE = _READING | {"OPTIONS", "TRACE"}
_MARKS = (
    "redaction_epoch",
    "redactions",
    "message_count",
    "updated_at",
    "last_activity_at",
    "namespace",
    "owner_id",
)


def database_for(request: HttpRequest) -> str:
    """Tells where a page is read first."""
    primary = bridge.database()
    replica = conf.get_settings().REPLICA_DATABASE
    if replica is None or request.method not in _READING or COOKIE in request.COOKIES:
        return primary
    fresh = "no-cache" in request.headers.get("Cache-Control", "").lower()
    return primary if fresh or connections[primary].in_atomic_block else replica


def answered(
    request: HttpRequest, read: Callable[[str], R], fits: Callable[[R], bool] = lambda found: True
) -> R:
    """Reads from the replica, or from the primary if that is no good."""
    primary, alias = bridge.database(), database_for(request)
    if alias != primary:
        try:
            found = read(alias)
            if fits(found):
                return found
        except Error as error:
            _pass_over(error)
    return read(primary)


def listed(request: HttpRequest, read: Callable[[str], Sequence[Session]]) -> Sequence[Session]:
    """Reads a page of a list of sessions."""
    return answered(request, read, lambda rows: _are_the_same(rows, bridge.database()))


def database_of(session: Session, request: HttpRequest) -> str:
    """Tells where the messages of a session are read."""
    primary = bridge.database()
    return answered(
        request,
        lambda alias: alias if alias == primary or _are_the_same([session], alias) else primary,
    )


def remember(request: HttpRequest, response: HttpResponseBase) -> None:
    """Lets somebody read from the primary for a while, after a request that may have written."""
    given = conf.get_settings()
    if given.REPLICA_DATABASE is not None and request.method not in _SAFE:
        response.set_cookie(
            COOKIE,
            "1",
            max_age=max(1, round(given.REPLICA_LAG_SECONDS)),
            secure=request.is_secure(),
            httponly=True,
            samesite="Lax",
        )


def _are_the_same(rows: Sequence[Session], alias: str) -> bool:
    """Tells whether another database has sessions as they were read."""
    if not rows:
        return True
    found = Session.objects.using(alias).filter(pk__in=[row.pk for row in rows]).order_by()
    there: set[Any] = set(found.values_list("pk", *_MARKS))
    return all((row.pk, *(getattr(row, mark) for mark in _MARKS)) in there for row in rows)


def _pass_over(error: Error) -> None:
    """Leaves the page to the primary if the replica is away, or had to give up a reading."""
    if not (is_lost_connection(error) or is_conflict(error)):
        raise error
    alias = conf.get_settings().REPLICA_DATABASE
    logger.warning("the replica %r did not answer (%s)", alias, type(error).__name__)
