"""What pages call the sessions that they link to."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from django_agent_sessions.models import Session
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.queries.titles import with_readable_titles

from .formatting import shown_title
from .permissions import reach


def with_shown_titles(request: HttpRequest, rows: Any) -> list[Session]:
    """Return the sessions of a queryset, each with ``shown_title`` for this viewer."""
    sessions = with_readable_titles(rows)
    readable = reach(request, SessionPermission.READ).among(sessions)
    for session in sessions:
        title = shown_title(session, readable=session.pk in readable)
        session.shown_title = title  # type: ignore[attr-defined] # for the template
    return sessions
