"""Forks: a new session that goes on from somewhere in another."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from rest_framework.decorators import action
from rest_framework.response import Response

from django_agent_sessions.models import AuditEvent, Session, SessionMessage
from django_agent_sessions.owners import EVERYBODY
from django_agent_sessions.permissions import Allowed
from django_agent_sessions.querysets import SessionQuerySet
from django_agent_sessions.rest import changing, throttles
from django_agent_sessions.rest.base import SessionAPI
from django_agent_sessions.rest.examples import FORK
from django_agent_sessions.rest.problems import Conflict, NotThere
from django_agent_sessions.rest.schema import ETAG, ID, answer, described, headed, problems
from django_agent_sessions.rest.serializers.branches import ForkSerializer
from django_agent_sessions.rest.serializers.sessions import SessionSerializer
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.session_reading import session_record


class Forking(SessionAPI):
    """What makes forks, and tells of what a session was forked; the base of a session's views."""

    @described(
        operation_id="sessions_fork",
        tags=["Branches"],
        parameters=[ID, ETAG, headed("Location", "Where the fork is.", 200, 201)],
        request=ForkSerializer,
        responses={
            200: answer(SessionSerializer, "The fork that has the `external_id`."),
            201: answer(SessionSerializer, "The fork that was made."),
            **problems(400, 404, 409, 413, 503),
        },
        examples=FORK,
    )
    @action(detail=True, methods=["post"], throttle_scope=throttles.BRANCH)
    def fork(self, request: Any, session: str) -> Response:
        """Makes a session with a copy of what was said, which both then go on from.

        It belongs to the session's owner. What was redacted is redacted in it, too. With an
        ``external_id`` it is made once, however often it is asked for.
        """
        row = self.session(session, Allowed.READ, Allowed.CHANGE, Allowed.ADD)
        given = ForkSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        wanted = given.validated_data
        key, made = changing.alone(
            self.using, row, lambda found: self._forked(found, wanted), "forking"
        )
        place, _, _ = request.path.rstrip("/").rpartition(f"/{session}/")
        return self.placed(self.row_of(self.reachable_sessions(), key), made, place)

    def row_of(self, sessions: SessionQuerySet, key: object) -> Session:
        """Reads a session to be represented."""
        raise NotImplementedError

    def placed(self, row: Session, made: bool, place: str) -> Response:
        """Answers with a session that was made or found, and where it is."""
        raise NotImplementedError

    def origin_of(self, row: Session) -> dict[str, Any] | None:
        """Tells what a session was forked from, if the user reaches that, too.

        Args:
            row: The session.

        Returns:
            The other session, and the message; None if it is no fork, or of what is not there.
        """
        found = _fork_of(row)
        if found is None:
            return None
        other = self.reachable_sessions().defer("metadata", "origin").filter(pk=found["session"])
        source = other.first()
        return found if source is not None and self.allows(source, Allowed.READ) else None

    def _forked(self, row: Session, given: dict[str, Any]) -> tuple[UUID, bool]:
        """Forks a session whose row is locked; tells the fork, and whether it is new."""
        at, external_id = given.get("at"), given.get("external_id")
        if external_id is not None and row.owner_id is not None:
            named = Session.objects.using(self.using).filter(owner=row.owner_id)
            there = named.filter(external_id=external_id).first()
            if there is not None:
                fork = _fork_of(there)
                if fork != {"session": row.pk, "message": at}:
                    detail = "Another session has this external_id already. Choose another."
                    raise Conflict(detail)
                self.record_reading(row, view="fork")
                return there.pk, False
        messages = SessionMessage.objects.using(self.using).filter(session=row.pk)
        if at is not None and not messages.filter(pk=at).exists():
            raise NotThere("at", "The session has no such message.")
        made = SessionStore(owner=EVERYBODY, using=self.using).fork(
            session_record(row), at=at, title=given.get("title"), external_id=external_id
        )
        figures = {"fork": str(made.id), "messages": made.usage.messages}
        changing.record(self, AuditEvent.Action.FORKED, row, at, **figures)
        return made.id, True


def _fork_of(row: Session) -> dict[str, Any] | None:
    """Tells what a session was forked from, and at which message."""
    if row.forked_from is None:
        return None
    origin: Any = row.origin
    try:
        told = origin["fork"]
        message = told["message"]
        return {
            "session": UUID(told["session"]),
            "message": None if message is None else UUID(message),
        }
    except (KeyError, TypeError, ValueError):
        return None
