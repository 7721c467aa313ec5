"""The URLs of the API.

``path("api/agent-sessions/", include("django_agent_sessions.rest.urls"))``

``AGENT_SESSIONS["ROUTER"]`` chooses another router.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from django.urls import path
from drf_spectacular.views import SpectacularAPIView
from rest_framework.renderers import JSONRenderer

from django_agent_sessions.conf import raw_settings
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.values.chosen_classes import chosen_class

from .access import SCOPE
from .base import check_parameters
from .problems import exception_handler
from .routers import SessionRouter
from .schema import DOCUMENT
from .transactions import AtomicAPI

app_name = "agent_sessions_api"


class _SchemaView(AtomicAPI, SpectacularAPIView):
    """The OpenAPI document, with errors as problem details."""

    def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
        """Run REST framework's checks, and reject unknown query parameters."""
        super().initial(request, *args, **kwargs)
        # Clients send a scope to every URL.
        check_parameters(request, ("lang", SCOPE, "version"))

    def get_exception_handler(self) -> Callable[..., Any]:
        return exception_handler

    def finalize_response(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        if response.exception:
            request.accepted_renderer = JSONRenderer()
            request.accepted_media_type = JSONRenderer.media_type
        return super().finalize_response(request, response, *args, **kwargs)


def _router_urls() -> list[Any]:
    if not isinstance(raw_settings(), Mapping):
        # Every request fails.
        return list(SessionRouter().urls)
    # The system check reports a wrong class. The default is no substitute: it may show more.
    with suppress(ConfigurationError):
        return list(chosen_class("ROUTER", SessionRouter)().urls)
    return []


urlpatterns = [
    path("schema/", _SchemaView.as_view(custom_settings=DOCUMENT), name="schema"),
    *_router_urls(),
]
