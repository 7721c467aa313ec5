"""The base of all views of the API."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from django.utils.cache import patch_cache_control, patch_vary_headers
from rest_framework.metadata import SimpleMetadata
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from .access import SessionAccess
from .parsers import SessionRequest, StrictJSONParser
from .problems import exception_handler
from .renderers import SafeJSONRenderer, SessionNegotiation
from .schema import SessionSchema
from .throttles import ALL, SessionThrottle


class ViewMetadata(SimpleMetadata):
    """The response to ``OPTIONS``, without fields: those are in the OpenAPI document."""

    def determine_actions(self, request: Any, view: Any) -> dict[str, Any]:
        """Return no fields, so that the response is the same for all users and needs no query."""
        return {}


class SessionAPI(SessionAccess, APIView):
    """A JSON view of the API for authenticated users.

    Authentication is the project's (``DEFAULT_AUTHENTICATION_CLASSES``). Its throttles apply,
    and those of :class:`~django_agent_sessions.rest.throttles.SessionThrottle` in addition.
    """

    permission_classes: Any = [IsAuthenticated]
    parser_classes: Any = [StrictJSONParser]
    renderer_classes: Any = [SafeJSONRenderer]
    content_negotiation_class: Any = SessionNegotiation
    metadata_class: Any = ViewMetadata
    throttle_scope: str | None = None
    filter_backends: Any = []
    # Set here, because the project's DEFAULT_SCHEMA_CLASS may be another one.
    schema = SessionSchema()

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the handler with those arguments of the path that it accepts."""
        return super().dispatch(request, *args, **self.taken(request, kwargs))

    def taken(self, request: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Drop the arguments of the project's part of the path, such as a version or a tenant."""
        handler = getattr(self, (request.method or "").lower(), None)
        parameters = {} if handler is None else inspect.signature(handler).parameters
        if handler is None or any(
            parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()
        ):
            return kwargs
        return {name: value for name, value in kwargs.items() if name in parameters}

    def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
        """Run REST framework's checks with all arguments of the path."""
        match = request.resolver_match
        super().initial(request, *args, **(kwargs if match is None else match.kwargs))

    def initialize_request(self, request: Any, *args: Any, **kwargs: Any) -> Request:
        """Return a request that also reads bodies of unknown length."""
        initialized: Any = super().initialize_request(request, *args, **kwargs)
        return SessionRequest(
            request,
            parsers=initialized.parsers,
            authenticators=initialized.authenticators,
            negotiator=initialized.negotiator,
            parser_context=initialized.parser_context,
        )

    def get_exception_handler(self) -> Callable[..., Any]:
        """Return the handler for problem details, whatever the project uses elsewhere."""
        return exception_handler

    def get_throttles(self) -> list[BaseThrottle]:
        """Return the project's throttles and those of the API's scopes."""
        scopes = dict.fromkeys(scope for scope in (ALL, self.throttle_scope) if scope)
        return [*super().get_throttles(), *(SessionThrottle(scope) for scope in scopes)]

    def finalize_response(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Mark the response as private to its user."""
        response = super().finalize_response(request, response, *args, **kwargs)
        if response.has_header("ETag"):
            patch_cache_control(response, private=True, no_cache=True)
        else:
            patch_cache_control(response, private=True, no_store=True)
        patch_vary_headers(response, ["Accept", "Authorization", "Cookie"])
        response["X-Content-Type-Options"] = "nosniff"
        return response
