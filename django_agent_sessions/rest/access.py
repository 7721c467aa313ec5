"""Who reaches which sessions through the API, what they may do there, and the record of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import Func, Value
from django.http import Http404
from rest_framework.exceptions import ValidationError

from django_agent_sessions import audit, bridge
from django_agent_sessions.batches import DOOMED
from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.permissions import Allowed, may
from django_agent_sessions.querysets import SessionQuerySet

SCOPE = "scope"
"""The query parameter that asks for other people's sessions too."""

EVERYBODY = "all"
"""Its value for the sessions of everybody."""

OWN = "own"
"""Its value for one's own sessions, which is the default."""


class SessionAccess:
    """What a view knows about its request's user; mixed into every view of the API.

    A session that is not the user's is reached with ``?scope=all`` only, by whoever has the
    permissions ``view_session`` and ``read_transcript``; what is seen of it is recorded.
    Everything else is a 404 that does not tell whether the session exists.
    """

    owner_may: ClassVar[Collection[Allowed]] = frozenset(
        {
            Allowed.READ,
            Allowed.ADD,
            Allowed.CHANGE,
            Allowed.DELETE,
            Allowed.REDACT,
            Allowed.EXPORT,
        }
    )
    """What owners may do with their own sessions without having the permission."""

    namespace: ClassVar[str | None] = None
    """The only namespace whose sessions are reached; ``None`` for any."""

    request: Any

    @property
    def using(self) -> str:
        """The alias of the sessions' database, for reads too: a replica may be behind.

        What may be behind is read by :mod:`django_agent_sessions.replicas`.
        """
        return bridge.database()

    @property
    def reaches_everybody(self) -> bool:
        """Whether the request asks for other people's sessions."""
        scope = self.request.query_params.get(SCOPE, OWN)
        if scope not in (OWN, EVERYBODY):
            raise ValidationError({SCOPE: [f"Give {OWN} or {EVERYBODY}."]})
        # Both, as in the admin: by the one sessions are found, by the other they are read.
        if scope == EVERYBODY and not may(self.request.user, Allowed.VIEW, Allowed.READ):
            raise Http404
        return bool(scope == EVERYBODY)

    def reachable_sessions(self) -> SessionQuerySet:
        """Gives the sessions that the user reaches."""
        sessions = Session.objects.using(self.using)
        return self._in_namespace(sessions) if self.reaches_everybody else self.own_sessions()

    def own_sessions(self) -> SessionQuerySet:
        """Gives the user's own sessions, whatever the request asks for."""
        sessions = Session.objects.using(self.using)
        return self._in_namespace(sessions.owned_by(_unplanned(self.request.user.pk)))

    def session(self, key: object, *needed: Allowed) -> Session:
        """Finds a session."""
        row = self.reachable_sessions().defer("metadata", "origin").filter(pk=uuid_of(key)).first()
        if row is None or row.namespace == DOOMED or not self.allows(row, *needed):
            raise Http404
        return row

    def allows(self, session: Session, *needed: Allowed) -> bool:
        """Tells whether the user may do something with a session that is reached."""
        if self.owns(session):
            needed = tuple(one for one in needed if one not in self.owner_may)
        return not needed or may(self.request.user, *needed)

    def owns(self, session: Session) -> bool:
        """Tells whether it is the user's own session, whose reading is not recorded."""
        owner, user = session.owner_id, self.request.user.pk
        if owner is None or user is None:
            return False
        # A user without a row, of a token, may have its key as text.
        column: Any = Session._meta.get_field("owner")
        return bool(owner == column.target_field.to_python(user))

    def _in_namespace(self, sessions: SessionQuerySet) -> SessionQuerySet:
        return sessions if self.namespace is None else sessions.filter(namespace=self.namespace)

    def record_reading(
        self, session: Session | None, target: UUID | None = None, **details: Any
    ) -> None:
        """Records that something is about to be shown, unless it is the user's own."""
        if session is None or not self.owns(session):
            audit.record(
                AuditEvent.Action.READ,
                session=None if session is None else session.pk,
                target=target,
                actor=self.request.user,
                details={"via": "api", **details},
                using=self.using,
            )


def _unplanned(key: Any) -> Any:
    """Hides a user's key from the planner's statistics.

    Of somebody who owns many sessions PostgreSQL would expect to meet enough of them among the
    most recent ones of everybody, and read all of these if it does not.
    """
    if key is None:
        return None
    column: Any = Session._meta.get_field("owner")
    return Func(Value(key, output_field=column.target_field), template="(SELECT %(expressions)s)")


def uuid_of(value: object) -> UUID:
    """Reads a primary key from an address."""
    if isinstance(value, UUID):
        return value
    try:
        return UUID(str(value))
    except ValueError:
        raise Http404 from None
