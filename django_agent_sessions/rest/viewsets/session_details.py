"""A session as the API shows it: with its agents, first and last text, and the source of a fork."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import Case, Prefetch, Q, When
from django.db.models.functions import Substr
from django.db.models.lookups import LessThanOrEqual
from django.http import Http404
from rest_framework import status
from rest_framework.response import Response

from django_agent_sessions.content import codec, dialects
from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.models import MAIN_BRANCH, Session, SessionAgent, SessionMessage
from django_agent_sessions.models.fields import ExactJSONField
from django_agent_sessions.models.functions import OctetLength
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.models.querysets import SessionQuerySet
from django_agent_sessions.models.stored_text import VISIBLE_TEXT, visible_payload
from django_agent_sessions.rest.base import etag_response
from django_agent_sessions.rest.changes import ChangeAPI
from django_agent_sessions.rest.serializers.sessions import AgentSerializer
from django_agent_sessions.timeline.services import fork_source

_SEARCHED_MESSAGES = 20
_TEXT_LENGTH = 500
_MAX_PAYLOAD = 64 * 1024
"""The most bytes of an encrypted message that is read for its text."""


class SessionDetailAPI(ChangeAPI):
    """The base of the sessions' view set: it reads and represents one session."""

    def row_of(self, sessions: SessionQuerySet, key: UUID) -> Session:
        """Return a session with its agents; raise ``Http404`` if the user may not read it."""
        # Agents of the same database, without their states, which may be large.
        columns = [*AgentSerializer.Meta.fields, "session_id"]
        agents = SessionAgent.objects.using(self.using).only(*columns)
        rows = sessions.defer("origin").prefetch_related(Prefetch("agents", agents))
        row = rows.filter(pk=key).first()
        if row is None or not self.has_permissions(row, SessionPermission.READ):
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
        if origin is None:
            return None
        try:
            self.session(origin["session"], SessionPermission.READ)
        except Http404:
            return None
        return origin


def _first_text(messages: Any) -> dict[str, Any] | None:
    """Return the first of these messages that has a text; looks at the first few only."""
    columns = ["pk", "role", Substr("text", 1, _TEXT_LENGTH), *_payload_columns()]
    for key, role, text, *payload in messages.values_list(*columns)[:_SEARCHED_MESSAGES]:
        if shown := text or _text_of(*payload)[:_TEXT_LENGTH]:
            return {"message": str(key), "role": role, "text": displayable(shown)}
    return None


def _payload_columns() -> list[Any]:
    """Return the columns that contain a text that is encrypted."""
    if codec.is_plain():
        return []
    size = OctetLength(VISIBLE_TEXT)
    small = When(Q(text="") & LessThanOrEqual(size, _MAX_PAYLOAD), then=visible_payload())
    return ["agent__dialect", Case(small, output_field=ExactJSONField(null=True))]


def _text_of(dialect: str = "", payload: Any = None) -> str:
    return "" if payload is None else dialects.get(dialect).summary(payload).text
