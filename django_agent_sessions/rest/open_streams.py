"""Streams of events that are open, and what they may read now.

Many streams are checked together: each user, login and session is read once. A stream is only ever
checked by its own request's permission classes, with the rights of its own user.
"""

from __future__ import annotations

import contextvars
import functools
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from enum import Enum
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import Http404
from rest_framework.exceptions import APIException

from django_agent_sessions.models import Session
from django_agent_sessions.models.permissions import SessionPermission

from .access import SessionAccess
from .login_check import LoginCheck, StoredLogins
from .serializers.messages import media_url

_NOT_ALLOWED = (Http404, PermissionDenied, APIException)


class EndReason(Enum):
    """Why a stream ends."""

    TIME = "time"
    """It lasted as long as it may: reconnect."""

    GONE = "gone"
    """The session, or the user's permission, is gone."""

    LOGIN = "login"
    """The user logged out or has a new password: reconnect with a new login."""


class OpenStream:
    """A stream of a session, opened by a request of ``view`` in the present context."""

    def __init__(self, view: Any, session: Session, login: LoginCheck) -> None:
        self.session = session
        self.login = login
        self.media_url = media_url(view)
        self._view = view
        self._context = contextvars.copy_context()
        self.access_key: Hashable = self if (key := _access_key(view, login)) is None else key
        """Streams with the same key reach the same sessions."""

    def admit(self, user: Any) -> None:
        """Check the view's permissions for the user as stored now; raise if they are gone."""
        if user is not self._view.request.user:
            self._view.request.user = user
        self._context.run(self._view.check_permissions, self._view.request)

    def sessions(self, keys: Iterable[Any]) -> dict[Any, Session]:
        """Return those of the sessions that the user may read now, by key."""
        return self._context.run(self._read_sessions, set(keys))

    def _read_sessions(self, keys: set[Any]) -> dict[Any, Session]:
        if self.access_key is self:
            return {key: self._view.session(key, SessionPermission.READ) for key in keys}
        found: dict[Any, Session] = self._view.sessions_by_key(keys, SessionPermission.READ)
        return found


def _access_key(view: Any, login: LoginCheck) -> Hashable | None:
    """Return what decides which sessions a request reaches; None if it may be anything."""
    # A user that a token describes may have other rights with another token.
    if not (isinstance(login.user, Model) and _decides_as_all(type(view))):
        return None
    match = view.request.resolver_match
    others = () if match is None else sorted(match.kwargs.items() - view.kwargs.items())
    return (
        login.user.__class__,
        login.user.pk,
        view.asked_scope,
        view.namespace,
        frozenset(view.owner_may),
        frozenset(view.reader_may),
        frozenset(view.writer_may),
        # Those of a project that has tenants.
        view.request.META.get("HTTP_HOST"),
        tuple(others),
    )


def _decides_as_all(view: type[Any]) -> bool:
    """Return whether a class of views has the rule of all views of the API."""
    names = [name for name, value in vars(SessionAccess).items() if callable(value)]
    names += ["asked_scope", "asks_for_everybody", "using"]
    return all(getattr(view, name) is getattr(SessionAccess, name) for name in names)


Allowed = Session | EndReason | BaseException
"""The session as stored now, why a stream ends, or an error of a project's code."""


def check_streams(streams: Iterable[OpenStream]) -> dict[OpenStream, Allowed]:
    """Check the logins and permissions of streams again."""
    distinct = list(dict.fromkeys(streams))
    stored = StoredLogins([stream.login for stream in distinct])
    stored.read()
    found: dict[OpenStream, Allowed] = {}
    admitted: defaultdict[Hashable, list[OpenStream]] = defaultdict(list)
    for stream in distinct:
        ended = _outcome(functools.partial(_check_login, stored, stream))
        if ended is None:
            admitted[stream.access_key].append(stream)
        else:
            found[stream] = ended
    for group in admitted.values():
        rows = _outcome(functools.partial(group[0].sessions, {each.session.pk for each in group}))
        for stream in group:
            found[stream] = _allowed(stream, rows) if isinstance(rows, dict) else rows
    return found


def _check_login(stored: StoredLogins, stream: OpenStream) -> EndReason | None:
    # Django caches permissions on the user, and they may have been revoked.
    user = stored.user_of(stream.login)
    if user is None:
        return EndReason.GONE
    if not stored.is_valid(stream.login, user):
        return EndReason.LOGIN
    stream.admit(user)
    return None


def _allowed(stream: OpenStream, rows: dict[Any, Session]) -> Session | EndReason:
    current = rows.get(stream.session.pk)
    # Reading another user's session was recorded for this owner when the stream began.
    if current is None or current.owner_id != stream.session.owner_id:
        return EndReason.GONE
    return current


def _outcome(check: Callable[[], Any]) -> Any:
    """Return the result of a check, or its error, which is not an error of other streams."""
    try:
        return check()
    except _NOT_ALLOWED:
        return EndReason.GONE
    except Exception as error:
        return error
