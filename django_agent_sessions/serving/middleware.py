"""Middleware: the user of audit events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import Any, cast

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from django_agent_sessions import audit

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
