"""Whether the login of a request is still valid while its response is streamed."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.db.models import Model
from django.utils.crypto import constant_time_compare


class LoginCheck:
    """The login of a request; its methods query the database.

    A logout deletes the session of the browser, or the token if it is a row, as those of Django
    REST framework are. A new password changes the hash that sessions are bound to.
    """

    def __init__(self, request: Any) -> None:
        self._user = request.user
        self._password_hash = _password_hash(self._user)
        self._token = request.auth
        session = getattr(request._request, "session", None)
        # Of a request with a token, the session may be another user's.
        is_login = session is not None and session.get(SESSION_KEY) == str(self._user.pk)
        self._session: Any = session if is_login and self._token is None else None

    def current_user(self) -> Any:
        """Return the user as stored now; ``None`` if the user was deleted or deactivated."""
        if not isinstance(self._user, Model):
            return self._user
        user = self._user.__class__._default_manager.filter(pk=self._user.pk).first()
        return user if user is not None and getattr(user, "is_active", True) else None

    def is_valid(self, user: Any) -> bool:
        """Return whether the current user is still logged in, with the same password."""
        if self._password_hash is not None and _password_hash(user) != self._password_hash:
            return False
        if isinstance(self._token, Model):
            tokens = self._token.__class__._default_manager
            return tokens.filter(pk=self._token.pk).exists()
        return self._session is None or self._is_stored(user)

    def _is_stored(self, user: Any) -> bool:
        """Return whether the browser's session still exists and is this user's."""
        # Another object, because this one holds what it read when the request began.
        stored = self._session.__class__(self._session.session_key)
        if stored.get(SESSION_KEY) != str(user.pk):
            return False
        valid = _password_hash(user)
        if valid is None:
            return True
        get_fallbacks: Any = getattr(user, "get_session_auth_fallback_hash", tuple)
        found = stored.get(HASH_SESSION_KEY, "")
        return any(constant_time_compare(found, each) for each in (valid, *get_fallbacks()))


def _password_hash(user: Any) -> str | None:
    get_hash = getattr(user, "get_session_auth_hash", None)
    return None if get_hash is None else get_hash()
