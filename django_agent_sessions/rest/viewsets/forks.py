"""Forks: new sessions that continue another one from one of its messages."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from rest_framework.decorators import action
from rest_framework.response import Response

from django_agent_sessions.models import AuditEvent, Session, SessionMessage
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.models.querysets import SessionQuerySet
from django_agent_sessions.rest import session_locking, throttles
from django_agent_sessions.rest.base import SessionAPI
from django_agent_sessions.rest.examples import FORK
from django_agent_sessions.rest.problems import Conflict, ReferenceNotFound
from django_agent_sessions.rest.schema import (
    ETAG,
    SESSION_PARAMETER,
    describe_view,
    documented_response,
    problem_responses,
    response_header,
)
from django_agent_sessions.rest.serializers.branches import ForkSerializer
from django_agent_sessions.rest.serializers.sessions import SessionSerializer
from django_agent_sessions.store import SessionStore, session_record
from django_agent_sessions.values.owners import EVERYBODY


class ForkMixin(SessionAPI):
    """The creation of forks and the source of a fork; the base of the sessions' viewset."""

    @describe_view(
        operation_id="sessions_fork",
        tags=["Branches"],
        parameters=[
            SESSION_PARAMETER,
            ETAG,
            response_header("Location", "The URL of the fork.", 200, 201),
        ],
        request=ForkSerializer,
        responses={
            200: documented_response(
                SessionSerializer, "The existing fork with this `external_id`."
            ),
            201: documented_response(SessionSerializer, "The new fork."),
            **problem_responses(400, 404, 409, 413, 503),
        },
        examples=FORK,
    )
    @action(detail=True, methods=["post"], throttle_scope=throttles.BRANCH)
    def fork(self, request: Any, session: str) -> Response:
        """Create a session with a copy of the messages; both continue independently.

        The fork has the same owner, and redacted content is redacted in it, too. With an
        ``external_id`` the request is safe to repeat.
        """
        row = self.session(
            session, SessionPermission.READ, SessionPermission.CHANGE, SessionPermission.ADD
        )
        serializer = ForkSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        data = serializer.validated_data
        key, created = session_locking.with_locked_session(
            self.using, row, lambda source: self._fork(source, data), "forking"
        )
        path, _, _ = request.path.rstrip("/").rpartition(f"/{session}/")
        return self.placed(self.row_of(self.accessible_sessions(), key), created, path)

    def row_of(self, sessions: SessionQuerySet, key: object) -> Session:
        """Return a session with its agents; raise ``Http404`` if the user may not read it."""
        raise NotImplementedError

    def placed(self, row: Session, made: bool, place: str) -> Response:
        """Return the response for a session that was created or existed, with its ``Location``.

        ``place`` is the path of the list of sessions, without a slash at its end.
        """
        raise NotImplementedError

    def fork_source(self, row: Session) -> dict[str, Any] | None:
        """Return the source of a fork, or ``None`` if the user does not reach it."""
        origin = _fork_source(row)
        if origin is None:
            return None
        rows = self.accessible_sessions().defer("metadata", "origin").filter(pk=origin["session"])
        source = rows.first()
        return (
            origin
            if source is not None and self.has_permissions(source, SessionPermission.READ)
            else None
        )

    def _fork(self, row: Session, data: dict[str, Any]) -> tuple[UUID, bool]:
        """Fork a session whose row is locked; return the fork's key, and whether it is new."""
        at, external_id = data.get("at"), data.get("external_id")
        if external_id is not None and row.owner_id is not None:
            own_sessions = Session.objects.using(self.using).filter(owner=row.owner_id)
            existing = own_sessions.filter(external_id=external_id).first()
            if existing is not None:
                origin = _fork_source(existing)
                if origin != {"session": row.pk, "message": at}:
                    detail = "Another session already has this external_id. Choose another."
                    raise Conflict(detail)
                self.record_access(row, view="fork")
                return existing.pk, False
        messages = SessionMessage.objects.using(self.using).filter(session=row.pk)
        if at is not None and not messages.filter(pk=at).exists():
            raise ReferenceNotFound("at", "The session has no such message.")
        fork = SessionStore(owner=EVERYBODY, using=self.using).sessions.fork(
            session_record(row), at=at, title=data.get("title"), external_id=external_id
        )
        figures = {"fork": str(fork.id), "messages": fork.usage.messages}
        session_locking.record_change(self, AuditEvent.Action.FORKED, row, at, **figures)
        return fork.id, True


def _fork_source(row: Session) -> dict[str, Any] | None:
    """Return the session and message that this one was forked from, or ``None``."""
    if row.forked_from is None:
        return None
    origin: Any = row.origin
    try:
        fork = origin["fork"]
        message = fork["message"]
        return {
            "session": UUID(fork["session"]),
            "message": None if message is None else UUID(message),
        }
    except (KeyError, TypeError, ValueError):
        return None
