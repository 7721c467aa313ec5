"""The URLs of the API.

``path("api/agent-sessions/", include("django_agent_sessions.rest.urls"))``

``AGENT_SESSIONS["ROUTER"]`` chooses another router.
"""

from __future__ import annotations

from django.urls import path
from drf_spectacular.views import SpectacularAPIView

from django_agent_sessions.values.chosen_classes import chosen_class

from .routers import SessionRouter
from .schema import DOCUMENT

app_name = "agent_sessions_api"

urlpatterns = [
    path("schema/", SpectacularAPIView.as_view(custom_settings=DOCUMENT), name="schema"),
    *chosen_class("ROUTER", SessionRouter)().urls,
]
