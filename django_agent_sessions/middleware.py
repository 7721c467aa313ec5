"""Naming the user in what is recorded during a request, and showing users what they wrote."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import Any, cast

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from . import audit, replicas

_Sync = Callable[[HttpRequest], HttpResponseBase]
_Async = Callable[[HttpRequest], Awaitable[HttpResponseBase]]


@sync_and_async_middleware
def acting_user(get_response: _Sync | _Async) -> _Sync | _Async:
    """Lets the audit trail name the user of a request, whatever view deletes a session.

    The admin of this app names its users without it. Other views do not, such as the page that
    deletes a user together with the sessions it owns. It stands behind
    ``AuthenticationMiddleware``::

        MIDDLEWARE = [
            # …
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django_agent_sessions.middleware.acting_user",
        ]
    """
    if iscoroutinefunction(get_response):
        ahead = cast(_Async, get_response)

        async def amiddleware(request: HttpRequest) -> HttpResponseBase:
            # The user is not asked for before it is needed: that takes the database.
            with audit.acting(_user_of(request)):
                return await ahead(request)

        return amiddleware

    following = cast(_Sync, get_response)

    def middleware(request: HttpRequest) -> HttpResponseBase:
        with audit.acting(_user_of(request)):
            return following(request)

    return middleware


def _user_of(request: HttpRequest) -> Any:
    if not hasattr(request, "user"):
        raise ImproperlyConfigured(
            "django_agent_sessions.middleware.acting_user has to stand behind "
            "django.contrib.auth.middleware.AuthenticationMiddleware in MIDDLEWARE"
        )
    return request.user


@sync_and_async_middleware
def reading_own_writes(get_response: _Sync | _Async) -> _Sync | _Async:
    """Lets people see what they have just written, where pages come from a replica.

    After a request that may have written, its user reads from the primary for
    ``AGENT_SESSIONS["REPLICA_LAG_SECONDS"]``. A cookie tells, so that it holds in all processes.
    Where it stands among the others makes no difference::

        MIDDLEWARE = [
            # …
            "django_agent_sessions.middleware.reading_own_writes",
        ]
    """
    if iscoroutinefunction(get_response):
        ahead = cast(_Async, get_response)

        async def amiddleware(request: HttpRequest) -> HttpResponseBase:
            response = await ahead(request)
            replicas.remember(request, response)
            return response

        return amiddleware

    following = cast(_Sync, get_response)

    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = following(request)
        replicas.remember(request, response)
        return response

    return middleware
