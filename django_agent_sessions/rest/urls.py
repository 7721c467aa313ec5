"""The URLs of the API.

``path("api/agent-sessions/", include("django_agent_sessions.rest.urls"))``

``AGENT_SESSIONS["ROUTER"]`` chooses another router.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from django.urls import path
from drf_spectacular.views import SpectacularAPIView

from django_agent_sessions.conf import raw_settings
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.values.chosen_classes import chosen_class

from .routers import SessionRouter
from .schema import DOCUMENT

app_name = "agent_sessions_api"


def _router_urls() -> list[Any]:
    if not isinstance(raw_settings(), Mapping):
        # Every request fails.
        return list(SessionRouter().urls)
    # The system check reports a wrong class. The default is no substitute: it may show more.
    with suppress(ConfigurationError):
        return list(chosen_class("ROUTER", SessionRouter)().urls)
    return []


urlpatterns = [
    path("schema/", SpectacularAPIView.as_view(custom_settings=DOCUMENT), name="schema"),
    *_router_urls(),
]
