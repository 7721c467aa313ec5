"""The Content-Security-Policy under which every page of the admin has to work."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
TRUSTED_TYPES = "require-trusted-types-for 'script'"
"""No script of ours makes HTML of a string. The jQuery that Django's admin loads on its lists does,
while it starts, so that pages with it cannot have this rule."""

_JQUERY = b"admin/js/vendor/jquery/"


def strict(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[..., HttpResponse]:
    """Middleware that sends the policy with every response, beside what the response forbids."""

    def respond(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        own = response.headers.get("Content-Security-Policy")
        policies = [own] if own else []
        policies.append(POLICY)
        if response.streaming or _JQUERY not in response.content:
            policies.append(TRUSTED_TYPES)
        # Policies with a comma between them hold all at once.
        response.headers["Content-Security-Policy"] = ", ".join(policies)
        return response

    return respond
