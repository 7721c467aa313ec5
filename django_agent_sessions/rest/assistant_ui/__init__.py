"""Threads for assistant-ui, whose ``assistant-cloud`` client asks a project's own site for them.

::

    urlpatterns = [
        path("api/assistant-ui/", include("django_agent_sessions.rest.assistant_ui.urls"))
    ]

A thread is one of the user's own sessions. What the client stores there is kept as an agent of its
own: it is what a browser said, and no server's agent ever restores it.
"""

from __future__ import annotations

AGENT_ID = "assistant-ui"
"""The agent of a session whose messages the client wrote."""
