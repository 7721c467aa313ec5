"""The API, and its stream of events with shorter times."""

from __future__ import annotations

from django.urls import include, path

from django_agent_sessions.rest.events import SessionEventsView
from django_agent_sessions.rest.routers import SessionRouter


class Events(SessionEventsView):
    keep_alive_seconds = 0.3
    check_seconds = 0.5


class Brief(SessionEventsView):
    max_seconds = 1
    max_streams = 3


class Router(SessionRouter):
    events = Events


urlpatterns = [
    path("api/", include((Router().urls, "agent_sessions_api"))),
    path("brief/<agent_sessions_uuid:session>/", Brief.as_view()),
    path("idle/<agent_sessions_uuid:session>/", SessionEventsView.as_view(max_streams=400)),
]
