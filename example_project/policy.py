"""The Content-Security-Policy of the example: nothing inline, nothing from elsewhere.

Django 6 brings a middleware for this; the example runs on 5.2 too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest, HttpResponseBase

HEADER = "Content-Security-Policy"

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        # blob: are pictures that are about to be sent; data: is what Django's admin draws with.
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)

TRUSTED_TYPES = "require-trusted-types-for 'script'"
"""No string becomes HTML. The jQuery of Django's admin does that, so its pages go without."""

_Answer = HttpResponseBase | Awaitable[HttpResponseBase]


def content_security_policy(
    get_response: Callable[[HttpRequest], _Answer],
) -> Callable[[HttpRequest], _Answer]:
    """Sends the policy with every response, beside what the response itself forbids."""
    if iscoroutinefunction(get_response):

        async def arespond(request: HttpRequest) -> HttpResponseBase:
            answer = await get_response(request)  # it is a coroutine here
            return _forbid(request, answer)

        return markcoroutinefunction(arespond)

    def respond(request: HttpRequest) -> HttpResponseBase:
        return _forbid(request, get_response(request))  # type: ignore[arg-type] # and none here

    return respond


content_security_policy.async_capable = True  # type: ignore[attr-defined] # Django looks for it
content_security_policy.sync_capable = True  # type: ignore[attr-defined] # and for this


def _forbid(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    policies = [response.headers[HEADER]] if HEADER in response.headers else []
    policies.append(POLICY)
    if not request.path.startswith("/admin/"):
        policies.append(TRUSTED_TYPES)
    # Policies with a comma between them hold all at once.
    response.headers[HEADER] = ", ".join(policies)
    return response
