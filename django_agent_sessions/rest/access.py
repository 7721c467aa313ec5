"""Which sessions an API user reaches, what the user may do there, and the audit record of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import Q, QuerySet
from django.http import Http404
from rest_framework.exceptions import ValidationError

from django_agent_sessions import audit
from django_agent_sessions.db import bridge
from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.models.access import owned_by_viewer, owns, reach_of
from django_agent_sessions.models.deletion import TOMBSTONE_NAMESPACE
from django_agent_sessions.models.permissions import REVIEWING, SessionPermission
from django_agent_sessions.models.querysets import SessionQuerySet

SCOPE = "scope"
"""The query parameter that asks for the sessions of other users, too."""

SCOPE_ALL = "all"
"""The value of ``scope`` for the sessions of all users."""

SCOPE_OWN = "own"
"""The value of ``scope`` for the user's own sessions, which is the default."""


class SessionAccess:
    """What a view knows about the user of its request; mixed into every view of the API.

    A session of another user is reached with ``?scope=all`` only, and only if the access rule
    permits ``view_session`` and ``read_transcript``; what is read is recorded. Every other request
    is a 404, whether the session exists or not.
    """

    owner_may: ClassVar[Collection[SessionPermission]] = frozenset(
        {
            SessionPermission.READ,
            SessionPermission.RATE,
            SessionPermission.ADD,
            SessionPermission.CHANGE,
            SessionPermission.DELETE,
            SessionPermission.REDACT,
            SessionPermission.EXPORT,
        }
    )
    """What owners may do with their own sessions without having the permission."""

    namespace: ClassVar[str | None] = None
    """The only namespace whose sessions are reached; ``None`` for all."""

    request: Any

    @cached_property
    def using(self) -> str:
        """The alias of the sessions' database, for reads too: a replica may be behind.

        Reads that accept a replica go through :mod:`django_agent_sessions.queries.replicas`.
        """
        return bridge.database()

    @property
    def asks_for_everybody(self) -> bool:
        """Whether the request asks for other users' sessions; raises for a wrong ``scope``."""
        scope = self.request.query_params.get(SCOPE, SCOPE_OWN)
        if scope not in (SCOPE_OWN, SCOPE_ALL):
            raise ValidationError({SCOPE: [f"Must be {SCOPE_OWN} or {SCOPE_ALL}."]})
        return bool(scope == SCOPE_ALL)

    def accessible_sessions(self) -> SessionQuerySet:
        """Return the sessions that the request reaches, without those that are being deleted.

        Raises ``Http404`` if the request asks for other users' sessions and may not. A stream calls
        it again and again, because permissions may be taken away.
        """
        if not self.asks_for_everybody:
            return self.own_sessions()
        return self.reached_sessions().exclude(namespace=TOMBSTONE_NAMESPACE)

    def reached_sessions(self) -> SessionQuerySet:
        """Return the accessible sessions and, of all users', those that are being deleted.

        Searches take these: a condition on every session would make them read every session.
        """
        if not self.asks_for_everybody:
            return self.own_sessions()
        # Both permissions, as in the admin: VIEW lists sessions, READ reads their messages.
        reach = reach_of(self.request.user, SessionPermission.VIEW, SessionPermission.READ)
        if not reach:
            raise Http404
        return self._in_namespace(reach.filter(Session.objects.using(self.using)))

    def own_sessions(self) -> SessionQuerySet:
        """Return the user's own sessions, whatever ``scope`` the request has."""
        sessions = Session.objects.using(self.using)
        return self._in_namespace(sessions.filter(owned_by_viewer(self.request.user)))

    def sessions_with(self, *needed: SessionPermission) -> SessionQuerySet:
        """Return the accessible sessions in which the user has all of these permissions."""
        sessions = self.accessible_sessions()
        needed_of_others = reach_of(self.request.user, *needed).condition
        needed_of_own = reach_of(
            self.request.user,
            *(permission for permission in needed if permission not in self.owner_may),
        ).condition
        allowed = Q(pk__in=[])
        if needed_of_own is not None:
            allowed |= owned_by_viewer(self.request.user) & needed_of_own
        if needed_of_others is not None:
            allowed = allowed | needed_of_others if needed_of_others else Q()
        return sessions.filter(allowed)

    def session(self, key: Any, *needed: SessionPermission) -> Session:
        """Return a session without its metadata; raise ``Http404`` if it is out of reach."""
        return self._first_or_404(self.accessible_sessions().filter(pk=key), needed)

    def sessions_by_key(
        self, keys: Collection[UUID], *needed: SessionPermission
    ) -> dict[UUID, Session]:
        """Return what :meth:`session` would of many sessions; those out of reach are missing."""
        rows = list(self._summaries(self.accessible_sessions().filter(pk__in=keys)))
        own = [row for row in rows if self.owns(row)]
        needed_of_own = [each for each in needed if each not in self.owner_may]
        allowed = reach_of(self.request.user, *needed_of_own).among(own)
        if len(own) < len(rows):
            others = [row for row in rows if not self.owns(row)]
            allowed |= reach_of(self.request.user, *needed).among(others)
        return {row.pk: row for row in rows if row.pk in allowed}

    def session_of(self, rows: QuerySet[Any], *needed: SessionPermission) -> Session:
        """Return the session that these rows belong to; raise ``Http404`` if it is out of reach.

        The rows decide the session, not a name in the URL.
        """
        sessions = self.accessible_sessions().filter(pk__in=rows.values("session"))
        return self._first_or_404(sessions, needed)

    def _first_or_404(
        self, sessions: SessionQuerySet, needed: Sequence[SessionPermission]
    ) -> Session:
        row = self._summaries(sessions).first()
        if row is None or not self.has_permissions(row, *needed):
            raise Http404
        return row

    def _summaries(self, sessions: SessionQuerySet) -> SessionQuerySet:
        return sessions.defer("metadata", "origin")

    def has_permissions(self, session: Session, *needed: SessionPermission) -> bool:
        """Return whether the user has all of these permissions in a session that is reached."""
        if self.owns(session):
            needed = tuple(permission for permission in needed if permission not in self.owner_may)
        return reach_of(self.request.user, *needed).includes(session)

    def may_review(self, session: Session) -> bool:
        """Return whether the user may see notes, labels and the state of a review; owners not."""
        return not self.owns(session) and reach_of(self.request.user, *REVIEWING).includes(session)

    def owns(self, session: Session) -> bool:
        """Return whether the user owns the session; reads by the owner are not recorded."""
        return owns(self.request.user, session)

    def _in_namespace(self, sessions: SessionQuerySet) -> SessionQuerySet:
        return sessions if self.namespace is None else sessions.filter(namespace=self.namespace)

    def record_access(
        self, session: Session | None, target: UUID | None = None, **details: Any
    ) -> None:
        """Record a read before its content is shown, unless the user owns the session.

        A session of ``None`` stands for several sessions.
        """
        if session is None or not self.owns(session):
            self.record(AuditEvent.Action.READ, session, target, **details)

    def record(
        self,
        action: AuditEvent.Action,
        session: Session | None = None,
        target: UUID | None = None,
        *,
        reason: str = "",
        **details: Any,
    ) -> None:
        """Write an audit event of this request; the details hold ids and figures only."""
        audit.record(
            action,
            session=None if session is None else session.pk,
            target=target,
            actor=self.request.user,
            reason=reason,
            details={"via": "api", **details},
            using=self.using,
        )
