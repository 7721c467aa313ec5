"""What all views of the API share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from django.utils.cache import patch_cache_control, patch_vary_headers
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from .access import SessionAccess
from .metadata import ViewMetadata
from .negotiation import SessionNegotiation
from .parsers import StrictJSONParser
from .problems import exception_handler
from .renderers import SafeJSONRenderer
from .requests import SessionRequest
from .schema import SessionSchema
from .throttles import EVERY, SessionThrottle


class SessionAPI(SessionAccess, APIView):
    """A view of the API: JSON in, JSON out, for people who are logged in.

    Authentication is the project's (``DEFAULT_AUTHENTICATION_CLASSES``), and so are its throttles;
    those of :class:`~django_agent_sessions.rest.throttles.SessionThrottle` come on top.
    """

    permission_classes: Any = [IsAuthenticated]
    parser_classes: Any = [StrictJSONParser]
    renderer_classes: Any = [SafeJSONRenderer]
    content_negotiation_class: Any = SessionNegotiation
    metadata_class: Any = ViewMetadata
    throttle_scope: str | None = None
    filter_backends: Any = []
    # Also where the project describes its other views in another way.
    schema = SessionSchema()

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls the handler of a method with what it takes of the path."""
        return super().dispatch(request, *args, **self.taken(request, kwargs))

    def taken(self, request: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Leaves out what the project's own part of the path names, such as a version or a tenant."""
        handler = getattr(self, (request.method or "").lower(), None)
        known = {} if handler is None else inspect.signature(handler).parameters
        if handler is None or any(one.kind is one.VAR_KEYWORD for one in known.values()):
            return kwargs
        return {name: value for name, value in kwargs.items() if name in known}

    def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
        """Looks at who asks, for what version, and how often."""
        match = request.resolver_match
        super().initial(request, *args, **(kwargs if match is None else match.kwargs))

    def initialize_request(self, request: Any, *args: Any, **kwargs: Any) -> Request:
        """Makes a request that reads bodies of unknown length, too."""
        found: Any = super().initialize_request(request, *args, **kwargs)
        return SessionRequest(
            request,
            parsers=found.parsers,
            authenticators=found.authenticators,
            negotiator=found.negotiator,
            parser_context=found.parser_context,
        )

    def get_exception_handler(self) -> Callable[..., Any]:
        """Answers errors as problem details, whatever the project does elsewhere."""
        return exception_handler

    def get_throttles(self) -> list[BaseThrottle]:
        """Adds the throttles of the API's scopes to the project's."""
        scopes = dict.fromkeys(scope for scope in (EVERY, self.throttle_scope) if scope)
        return [*super().get_throttles(), *(SessionThrottle(scope) for scope in scopes)]

    def finalize_response(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Says that an answer is for its asker only."""
        response = super().finalize_response(request, response, *args, **kwargs)
        if response.has_header("ETag"):
            patch_cache_control(response, private=True, no_cache=True)
        else:
            patch_cache_control(response, private=True, no_store=True)
        patch_vary_headers(response, ["Accept", "Authorization", "Cookie"])
        response["X-Content-Type-Options"] = "nosniff"
        return response
