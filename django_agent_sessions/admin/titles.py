"""What pages call the sessions that they link to."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.functional import SimpleLazyObject
from django.utils.text import Truncator

from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.models import Session
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.queries.titles import with_readable_titles

from .formatting import is_generated, shown_title
from .permissions import reach


def with_shown_titles(request: HttpRequest, rows: Any) -> list[Session]:
    """Return the sessions of a queryset, each with ``shown_title`` for this viewer."""
    # Lists defer the title, which would then be read row by row.
    sessions = with_readable_titles(rows.defer(None).defer("metadata", "origin"))
    readable = reach(request, SessionPermission.READ).among(sessions)
    for session in sessions:
        title = shown_title(session, readable=session.pk in readable)
        session.shown_title = title  # type: ignore[attr-defined] # for the template
    return sessions


def shown_name(session: Session) -> str:
    """Return a session's ``shown_title``, with its id where that is a name, too.

    Titles repeat: this tells apart the sessions that a page asks to confirm.
    """
    title: str = session.shown_title  # type: ignore[attr-defined] # set by with_shown_titles
    session_id = displayable(session.session_id)
    return title if title == session_id or is_generated(session_id) else f"{title} ({session_id})"


class Titled(SimpleLazyObject):  # type: ignore[type-arg] # not generic at run time
    """A session for the frame of Django's pages and of other admins, which shows ``str()`` of it.

    ``str()`` of a session is its id, because it is written to logs, too.
    """

    def __init__(self, session: Session, title: str) -> None:
        super().__init__(lambda: session)
        self.__dict__["shown_title"] = Truncator(title).chars(60)

    def __str__(self) -> str:
        return str(self.__dict__["shown_title"])


def with_title(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """Name the session of a page of Django's by its title, where the viewer may read it."""
    page = response.context_data if isinstance(response, TemplateResponse) else None
    if page and isinstance(session := page.get("object"), Session):
        known: Any = session
        if not hasattr(session, "shown_title"):
            rows = Session.objects.using(session._state.db).filter(pk=session.pk)
            known = next(iter(with_shown_titles(request, rows)), None)
        page["object"] = Titled(session, getattr(known, "shown_title", session.session_id))
    return response
