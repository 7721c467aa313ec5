"""Whether the logins of requests are still valid while their responses are streamed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends import db as database_sessions
from django.db.models import Model
from django.utils import timezone
from django.utils.crypto import constant_time_compare


class LoginCheck:
    """The login of a request; its methods query the database.

    A logout deletes the session of the browser, or the token if it is a row, as those of Django
    REST framework are. A new password changes the hash that sessions are bound to.
    """

    def __init__(self, request: Any) -> None:
        self.user = request.user
        self.password_hash = _password_hash(self.user)
        self.token = request.auth
        session = getattr(request._request, "session", None)
        # Of a request with a token, the session may be another user's.
        is_login = session is not None and session.get(SESSION_KEY) == str(self.user.pk)
        self.session: Any = session if is_login and self.token is None else None

    def current_user(self) -> Any:
        """Return the user as stored now; ``None`` if the user was deleted or deactivated."""
        return StoredLogins([self]).user_of(self)

    def is_valid(self, user: Any) -> bool:
        """Return whether the current user is still logged in, with the same password."""
        return StoredLogins([self]).is_valid(self, user)


class StoredLogins:
    """What is stored now about logins: each row is read once, and at first use."""

    def __init__(self, logins: Sequence[LoginCheck]) -> None:
        self._logins = logins
        self._hashes: dict[int, str | None] = {}

    def read(self) -> None:
        """Read everything now, so that a database that is away fails once."""
        _ = self._users, self._tokens, self._sessions

    def user_of(self, login: LoginCheck) -> Any:
        """See :meth:`LoginCheck.current_user`; the same object for all logins of a user."""
        if not isinstance(login.user, Model):
            return login.user
        user = self._users.get((login.user.__class__, login.user.pk))
        return user if user is not None and getattr(user, "is_active", True) else None

    def is_valid(self, login: LoginCheck, user: Any) -> bool:
        """See :meth:`LoginCheck.is_valid`."""
        if login.password_hash is not None and self._hash_of(user) != login.password_hash:
            return False
        if isinstance(login.token, Model):
            return login.token.pk in self._tokens[login.token.__class__]
        return login.session is None or self._is_stored(login.session, user)

    def _is_stored(self, session: Any, user: Any) -> bool:
        """Return whether the browser's session still exists and is this user's."""
        stored = self._sessions[session.__class__, session.session_key]
        if stored.get(SESSION_KEY) != str(user.pk):
            return False
        valid = self._hash_of(user)
        if valid is None:
            return True
        get_fallbacks: Any = getattr(user, "get_session_auth_fallback_hash", tuple)
        found = stored.get(HASH_SESSION_KEY, "")
        return constant_time_compare(found, valid) or any(
            constant_time_compare(found, each) for each in get_fallbacks()
        )

    def _hash_of(self, user: Any) -> str | None:
        key = id(user)
        if key not in self._hashes:
            self._hashes[key] = _password_hash(user)
        return self._hashes[key]

    @cached_property
    def _users(self) -> Mapping[tuple[type[Model], Any], Any]:
        users = (login.user for login in self._logins if isinstance(login.user, Model))
        return {
            (model, row.pk): row
            for model, keys in _keys_by_class(users).items()
            for row in model._default_manager.filter(pk__in=keys)
        }

    @cached_property
    def _tokens(self) -> Mapping[type[Model], set[Any]]:
        tokens = (login.token for login in self._logins if isinstance(login.token, Model))
        return {
            model: set(model._default_manager.filter(pk__in=keys).values_list("pk", flat=True))
            for model, keys in _keys_by_class(tokens).items()
        }

    @cached_property
    def _sessions(self) -> Mapping[tuple[type[Any], Any], Mapping[str, Any]]:
        """The data of the browsers' sessions; empty where there is none any more."""
        keys: defaultdict[type[Any], set[Any]] = defaultdict(set)
        for login in self._logins:
            if login.session is not None:
                keys[login.session.__class__].add(login.session.session_key)
        found: dict[tuple[type[Any], Any], Mapping[str, Any]] = {}
        for store, wanted in keys.items():
            # Other objects, because the requests' hold what they read when they began.
            if _reads_rows(store):
                found |= {(store, key): {} for key in wanted}
                rows = store.get_model_class()._default_manager.filter(
                    session_key__in=wanted, expire_date__gt=timezone.now()
                )
                found |= {(store, r.session_key): store().decode(r.session_data) for r in rows}
            else:
                # Of a signed cookie, the key is the data.
                found |= {(store, key): dict(store(key).items()) for key in wanted}
        return found


def _keys_by_class(rows: Iterable[Model]) -> dict[type[Model], set[Any]]:
    found: defaultdict[type[Model], set[Any]] = defaultdict(set)
    for row in rows:
        found[row.__class__].add(row.pk)
    return found


def _reads_rows(store: type[Any]) -> bool:
    """Return whether a class of sessions reads rows as Django's does, and not a cache."""
    names = ("load", "_get_session_from_db", "decode")
    django_store = database_sessions.SessionStore
    return all(getattr(store, name, None) is getattr(django_store, name, None) for name in names)


def _password_hash(user: Any) -> str | None:
    get_hash = getattr(user, "get_session_auth_hash", None)
    return None if get_hash is None else get_hash()
