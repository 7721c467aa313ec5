"""The test project's URLs, with streams that end at once and the description of the login."""

from __future__ import annotations

from django_agent_sessions.rest.events import SessionEventsView
from tests.urls import urlpatterns

from . import fuzzed_tokens  # noqa: F401 - drf-spectacular finds the description once it is imported

__all__ = ["urlpatterns"]

# A stream that goes on is no answer that could be looked at.
SessionEventsView.max_seconds = 0
