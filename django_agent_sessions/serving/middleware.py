"""Middleware: the user of audit events, and reads of one's own writes with a replica."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import Any, cast

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from django_agent_sessions import audit
from django_agent_sessions.queries import replicas

_Sync = Callable[[HttpRequest], HttpResponseBase]
_Async = Callable[[HttpRequest], Awaitable[HttpResponseBase]]


@sync_and_async_middleware
def acting_user(get_response: _Sync | _Async) -> _Sync | _Async:
    """Record the user of a request in the audit trail, whichever view deletes a session.

    The admin of this app records its users without it. Other views do not, such as the page that
    deletes a user together with the user's sessions. Put it after ``AuthenticationMiddleware``::

        MIDDLEWARE = [
            # …
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django_agent_sessions.serving.middleware.acting_user",
        ]
    """
    if iscoroutinefunction(get_response):
        get_async_response = cast(_Async, get_response)

        async def amiddleware(request: HttpRequest) -> HttpResponseBase:
            # request.user is lazy: it is only read, with a query, if an event is recorded.
            with audit.acting(_user_of(request)):
                return await get_async_response(request)

        return amiddleware

    get_sync_response = cast(_Sync, get_response)

    def middleware(request: HttpRequest) -> HttpResponseBase:
        with audit.acting(_user_of(request)):
            return get_sync_response(request)

    return middleware


def _user_of(request: HttpRequest) -> Any:
    if not hasattr(request, "user"):
        raise ImproperlyConfigured(
            "in MIDDLEWARE, django_agent_sessions.serving.middleware.acting_user must come after "
            "django.contrib.auth.middleware.AuthenticationMiddleware"
        )
    return request.user


@sync_and_async_middleware
def reading_own_writes(get_response: _Sync | _Async) -> _Sync | _Async:
    """Let users read their own writes if pages are read from a replica.

    After a request that may have written, its user reads from the primary for
    ``AGENT_SESSIONS["REPLICA_LAG_SECONDS"]``. A cookie marks the user, so that it works in all
    processes. Its position in the list does not matter::

        MIDDLEWARE = [
            # …
            "django_agent_sessions.serving.middleware.reading_own_writes",
        ]
    """
    if iscoroutinefunction(get_response):
        get_async_response = cast(_Async, get_response)

        async def amiddleware(request: HttpRequest) -> HttpResponseBase:
            response = await get_async_response(request)
            replicas.set_primary_cookie(request, response)
            return response

        return amiddleware

    get_sync_response = cast(_Sync, get_response)

    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = get_sync_response(request)
        replicas.set_primary_cookie(request, response)
        return response

    return middleware
