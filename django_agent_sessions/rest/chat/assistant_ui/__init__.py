"""Threads for assistant-ui, whose client ``assistant-cloud`` reads them from the project's site.

::

    urlpatterns = [
        path("api/assistant-ui/", include("django_agent_sessions.rest.chat.assistant_ui.urls"))
    ]

A thread is one of the user's own sessions. The client's messages are kept under an agent of their
own: a browser wrote them, so no server-side agent ever restores them.
"""

from __future__ import annotations

CLIENT_AGENT_ID = "assistant-ui"
"""The id of the agent that holds the client's messages."""
