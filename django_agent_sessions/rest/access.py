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
from django_agent_sessions.models.access import SessionReach, reach_of
from django_agent_sessions.models.deletion import ENCRYPTED, TOMBSTONE_NAMESPACE
from django_agent_sessions.models.permissions import REVIEWING, SessionPermission
from django_agent_sessions.models.querysets import SessionQuerySet
from django_agent_sessions.models.roles import (
    PARTICIPANTS,
    SessionRole,
    has_role,
    owned_by_viewer,
    owns,
    role_in,
    shared_with_viewer,
    with_role,
)

SCOPE = "scope"
"""The query parameter that asks for the sessions of other users, too."""

SCOPE_ALL = "all"
"""The value of ``scope`` for the sessions of all users."""

SCOPE_OWN = "own"
"""The value of ``scope`` for the user's own sessions, which is the default."""

SCOPE_SHARED = "shared"
"""The value of ``scope`` for the sessions in which the user is a participant."""

API_SCOPES = (SCOPE_OWN, SCOPE_SHARED, SCOPE_ALL)


class SessionAccess:
    """What a view knows about the user of its request; mixed into every view of the API.

    A user reaches the own sessions, and those in which the user is a participant. Any other session
    is reached with ``?scope=all`` only, and only if the access rule permits ``view_session`` and
    ``read_transcript``. What is read of other users is recorded. Every other request is a 404,
    whether the session exists or not.
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
            SessionPermission.SHARE,
        }
    )
    """What owners may do with their own sessions without having the permission."""

    reader_may: ClassVar[Collection[SessionPermission]] = frozenset({SessionPermission.READ})
    """All that participants may do who are readers."""

    writer_may: ClassVar[Collection[SessionPermission]] = frozenset(
        {SessionPermission.READ, SessionPermission.RATE}
    )
    """What participants may do who are writers, besides adding messages."""

    namespace: ClassVar[str | None] = None
    """The only namespace whose sessions are reached; ``None`` for all."""

    request: Any

    @cached_property
    def using(self) -> str:
        """The alias of the sessions' database, for reads too: a replica may be behind."""
        return bridge.database()

    @cached_property
    def asked_scope(self) -> str:
        """The request's ``scope``; raises for a wrong one."""
        scope: str = self.request.query_params.get(SCOPE, SCOPE_OWN)
        if scope not in API_SCOPES:
            raise ValidationError(
                {SCOPE: [f"Must be {', '.join(API_SCOPES[:-1])} or {API_SCOPES[-1]}."]}
            )
        return scope

    @cached_property
    def asks_for_everybody(self) -> bool:
        """Whether the request asks for other users' sessions; raises for a wrong ``scope``."""
        return self.asked_scope == SCOPE_ALL

    def accessible_sessions(self, **few: Any) -> SessionQuerySet:
        """Return the sessions that the request reaches, without those that are being deleted.

        ``few`` are look-ups that select few sessions by their keys: a rule may decide each of them.
        Raises ``Http404`` if the request asks for other users' sessions and may not. A stream calls
        it again and again, because permissions may be taken away.
        """
        sessions = self._in_namespace(Session.objects.using(self.using).filter(**few))
        if not self.asks_for_everybody:
            return sessions.filter(self._in_role())
        sessions, reach = sessions.exclude(namespace=TOMBSTONE_NAMESPACE), self._rule()
        return reach.find(sessions) if few else reach.filter(sessions)

    def listed_sessions(self) -> SessionQuerySet:
        """Return the sessions of a list, and those of all users that are being deleted.

        By default these are the user's own: shared ones are listed by ``?scope=shared``, so that
        each list is read in the order of its index. Searches take these: a condition on every
        session would make them read every session.
        """
        if self.asks_for_everybody:
            return self._in_namespace(self._rule().filter(Session.objects.using(self.using)))
        if self.asked_scope == SCOPE_SHARED:
            sessions = Session.objects.using(self.using)
            return self._in_namespace(sessions.filter(shared_with_viewer(self.request.user)))
        return self.own_sessions()

    def own_sessions(self) -> SessionQuerySet:
        """Return the user's own sessions, whatever ``scope`` the request has."""
        sessions = Session.objects.using(self.using)
        return self._in_namespace(sessions.filter(owned_by_viewer(self.request.user)))

    def sessions_with(self, *needed: SessionPermission) -> SessionQuerySet:
        """Return the accessible sessions in which the user has all of these permissions."""
        user, allowed = self.request.user, Q(pk__in=[])
        needed_of_own = reach_of(user, *self._beyond(needed)).condition
        if needed_of_own is not None:
            allowed |= owned_by_viewer(user) & needed_of_own
        if self.asks_for_everybody:
            needed_of_others = reach_of(user, *needed).condition
            if needed_of_others is not None:
                allowed = allowed | needed_of_others if needed_of_others else Q()
        else:
            roles = [role for role in PARTICIPANTS if set(needed) <= self._may(role)]
            allowed |= has_role(user, roles)
        return self.accessible_sessions().filter(allowed)

    def session(self, key: Any, *needed: SessionPermission) -> Session:
        """Return a session; its title and metadata are read when they are used.

        Raises ``Http404`` if it is out of reach.
        """
        return self._first_or_404(self.accessible_sessions(pk=key), needed)

    def sessions_by_key(
        self, keys: Collection[UUID], *needed: SessionPermission
    ) -> dict[UUID, Session]:
        """Return what :meth:`session` would of many sessions; those out of reach are missing."""
        rows = list(self._summaries(self.accessible_sessions(pk__in=keys)))
        own = [row for row in rows if self.owns(row)]
        allowed = reach_of(self.request.user, *self._beyond(needed)).among(own)
        if len(own) < len(rows):
            others = [row for row in rows if not self.owns(row)]
            if self.asks_for_everybody:
                allowed |= reach_of(self.request.user, *needed).among(others)
            else:
                allowed |= {row.pk for row in others if self.has_permissions(row, *needed)}
        return {row.pk: row for row in rows if row.pk in allowed}

    def session_of(self, rows: QuerySet[Any], *needed: SessionPermission) -> Session:
        """Return the session that these rows belong to; raise ``Http404`` if it is out of reach.

        The rows decide the session, not a name in the URL.
        """
        sessions = self.accessible_sessions(pk__in=rows.values("session"))
        return self._first_or_404(sessions, needed)

    def _first_or_404(
        self, sessions: SessionQuerySet, needed: Sequence[SessionPermission]
    ) -> Session:
        row = self._summaries(sessions).defer(*ENCRYPTED).first()
        if row is None or not self.has_permissions(row, *needed):
            raise Http404
        return row

    def _summaries(self, sessions: SessionQuerySet) -> SessionQuerySet:
        return self.with_role(sessions.defer("metadata", "origin"))

    def with_role(self, sessions: SessionQuerySet) -> SessionQuerySet:
        """Read the user's role with each session, if it counts."""
        return sessions if self.asks_for_everybody else with_role(self.request.user, sessions)

    def role_in(self, session: Session) -> SessionRole | None:
        """Return the user's role in a session; with ``?scope=all`` only owners have one."""
        if self.owns(session):
            return SessionRole.OWNER
        return None if self.asks_for_everybody else role_in(self.request.user, session)

    def has_permissions(self, session: Session, *needed: SessionPermission) -> bool:
        """Return whether the user has all of these permissions in a session that is reached."""
        role = self.role_in(session)
        if role in PARTICIPANTS:
            return set(needed) <= self._may(role)
        if role is SessionRole.OWNER:
            needed = self._beyond(needed)
        return not needed or reach_of(self.request.user, *needed).includes(session)

    def may_review(self, session: Session) -> bool:
        """Return whether the user may see notes, labels and the state of a review.

        Owners and participants may not, also with ``?scope=all``.
        """
        reach = reach_of(self.request.user, *REVIEWING)
        has_role = self.role_in(session) or role_in(self.request.user, session)
        return has_role is None and reach.includes(session)

    def may_write(self, session: Session) -> bool:
        """Return whether the user may add messages: owners who may change it, and writers."""
        role = self.role_in(session)
        if role is SessionRole.OWNER:
            return self.has_permissions(session, SessionPermission.READ, SessionPermission.CHANGE)
        return role is SessionRole.WRITER

    def owns(self, session: Session) -> bool:
        """Return whether the user owns the session; reads by the owner are not recorded."""
        return owns(self.request.user, session)

    def _in_role(self) -> Q:
        shared_only = self.asked_scope == SCOPE_SHARED
        return has_role(self.request.user, PARTICIPANTS if shared_only else tuple(SessionRole))

    def _rule(self) -> SessionReach:
        # Both permissions, as in the admin: VIEW lists sessions, READ reads their messages.
        reach = reach_of(self.request.user, SessionPermission.VIEW, SessionPermission.READ)
        if not reach:
            raise Http404
        return reach

    def _beyond(self, needed: Sequence[SessionPermission]) -> tuple[SessionPermission, ...]:
        """Return what owners need a permission for."""
        return tuple(permission for permission in needed if permission not in self.owner_may)

    def _may(self, role: SessionRole | None) -> set[SessionPermission]:
        return set(self.writer_may if role is SessionRole.WRITER else self.reader_may)

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
        audit.record_checked(
            action,
            session=None if session is None else session.pk,
            target=target,
            actor=self.request.user,
            reason=reason,
            details={"via": "api", **details},
            using=self.using,
        )
