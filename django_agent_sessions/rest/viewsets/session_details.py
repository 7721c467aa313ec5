"""A session as the API shows it: with its agents, first and last text, and the source of a fork."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import Prefetch
from django.http import Http404
from rest_framework import status
from rest_framework.response import Response

from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.models import MAIN_BRANCH, Session, SessionAgent, SessionMessage
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.models.querysets import SessionQuerySet
from django_agent_sessions.queries.beginnings import beginning, beginning_columns
from django_agent_sessions.rest.base import etag_response
from django_agent_sessions.rest.changes import ChangeAPI
from django_agent_sessions.rest.serializers.sessions import AgentSerializer
from django_agent_sessions.timeline.services import fork_source

_SEARCHED_MESSAGES = 20
_TEXT_LENGTH = 500


class SessionDetailAPI(ChangeAPI):
    """The base of the sessions' view set: it reads and represents one session."""

    def row_of(self, sessions: SessionQuerySet, *, copied: bool = False) -> Session:
        """Return the session with its agents; raise ``Http404`` if the user may not read it.

        A copy is shown to whoever made it, although nobody may have a permission for it yet.
        """
        # Agents of the same database, without their states, which may be large.
        columns = [*AgentSerializer.Meta.fields, "session_id"]
        agents = SessionAgent.objects.using(self.using).only(*columns)
        rows = self.with_role(sessions.defer("origin").with_display_title())
        row = rows.prefetch_related(Prefetch("agents", agents)).first()
        if row is None or not (copied or self.has_permissions(row, SessionPermission.READ)):
            raise Http404
        return row

    def representation(self, row: Session) -> dict[str, Any]:
        """Return a session as JSON, with its first and last text and the source of a fork."""
        messages = SessionMessage.objects.using(self.using).filter(session=row, branch=MAIN_BRANCH)
        shown: Any = row
        shown.first_text = _first_text(messages.order_by("id"))
        shown.last_text = _first_text(messages.order_by("-id"))
        shown.fork = self._visible_fork_source(row)
        data: dict[str, Any] = self.get_serializer(row).data
        return {**data, "agents": list(data["agents"])}

    def placed(self, row: Session, made: bool, place: str) -> Response:
        """Return the response for a session that was created or existed, with its ``Location``.

        ``place`` is the path of the list of sessions, without a slash at its end.
        """
        code = status.HTTP_201_CREATED if made else status.HTTP_200_OK
        response: Response = etag_response(self.request, self.representation(row), status=code)
        slash = "/" if self.request.path.endswith("/") else ""
        response["Location"] = self.request.build_absolute_uri(f"{place}/{row.pk}{slash}")
        return response

    def _visible_fork_source(self, row: Session) -> dict[str, Any] | None:
        """Return the source of a fork, or ``None`` if the user does not reach it."""
        origin = fork_source(row)
        return origin if origin is not None and self._may_read(origin["session"]) else None

    def _may_read(self, key: UUID | None) -> bool:
        """Return whether the user reaches a session and may read it."""
        try:
            self.session(key, SessionPermission.READ)
        except Http404:
            return False
        return True


def _first_text(messages: Any) -> dict[str, Any] | None:
    """Return the first of these messages that has a text; looks at the first few only."""
    columns = messages.values_list("pk", "role", *beginning_columns(_TEXT_LENGTH))
    for key, role, *begins in columns[:_SEARCHED_MESSAGES]:
        if text := beginning(_TEXT_LENGTH, *begins):
            return {"message": str(key), "role": role, "text": displayable(text)}
    return None
