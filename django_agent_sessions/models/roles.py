"""Which role a user has in a session: owner, writer or reader."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Any, TypeVar

from django.db.models import Exists, Func, OuterRef, Q, QuerySet, Subquery, Value

from django_agent_sessions.models import Participant, Session
from django_agent_sessions.values.owners import NOBODY, reached

S = TypeVar("S", bound=QuerySet[Any])


class SessionRole(StrEnum):
    """The role of a user in a session."""

    OWNER = "owner"
    WRITER = Participant.Role.WRITER.value
    READER = Participant.Role.READER.value


PARTICIPANTS = (SessionRole.WRITER, SessionRole.READER)


def owned_by_viewer(viewer: Any) -> Q:
    """Return the condition for a viewer's own sessions; nothing matches for an anonymous one.

    The key is in a subquery, so that PostgreSQL does not plan with its statistics. For a user with
    many sessions it would expect to find enough of them among the most recent sessions of all
    users, and scan all of those if it does not.
    """
    if viewer.pk is None:
        return Q(pk__in=[])
    return reached(_hidden_key(viewer))


def shared_with_viewer(viewer: Any) -> Q:
    """Return the condition for a list of others' sessions in which a viewer is a participant.

    The key is hidden from the planner's statistics, as in :func:`owned_by_viewer`.
    """
    if viewer.pk is None:
        return Q(pk__in=[])
    shared = Q(pk__in=Participant.objects.filter(user=_hidden_key(viewer)).values("session"))
    # A participant may have become the owner.
    return shared & ~owned_by_viewer(viewer)


def has_role(viewer: Any, roles: Collection[SessionRole] = tuple(SessionRole)) -> Q:
    """Return the condition that a viewer has one of these roles, for sessions known by their keys.

    It is checked for each session, so that the keys are what PostgreSQL looks up. A list would be
    read whole: it asks for :func:`owned_by_viewer` or for :func:`shared_with_viewer`.
    """
    condition = owned_by_viewer(viewer) if SessionRole.OWNER in roles else Q(pk__in=[])
    others = [role for role in roles if role is not SessionRole.OWNER]
    if others and viewer.pk is not None:
        condition |= Q(Exists(_participant(viewer).filter(role__in=others)))
    return condition


def with_role(viewer: Any, sessions: S) -> S:
    """Read the viewer's role with each session, for :func:`role_in`."""
    if viewer.pk is None:
        return sessions
    role = Subquery(_participant(viewer).values("role")[:1])
    annotated: S = sessions.annotate(**{_ROLE: role})
    return annotated


def role_in(viewer: Any, session: Session) -> SessionRole | None:
    """Return a viewer's role in a session; without a query if :func:`with_role` has read it."""
    if owns(viewer, session):
        return SessionRole.OWNER
    if viewer.pk is None or session.pk is None:
        return None
    role = session.__dict__.get(_ROLE, _UNREAD)
    if role is _UNREAD:
        rows = Participant.objects.using(session._state.db).filter(session=session.pk)
        role = rows.filter(user=_key(viewer)).values_list("role", flat=True).first()
    return SessionRole(role) if role else None


def owns(viewer: Any, session: Session) -> bool:
    """Return whether a viewer owns a session; reads by the owner are not recorded."""
    if session.owner_id is None or viewer.pk is None:
        return False
    # A user that a token describes has no row, and its key may be text.
    return bool(_owner_column().to_python(viewer.pk) == session.owner_id)


def store_owner(session: Session) -> Any:
    """Return what a store takes as the owner of a session."""
    return NOBODY if session.owner_id is None else session.owner_id


def _participant(viewer: Any) -> QuerySet[Participant]:
    return Participant.objects.filter(session=OuterRef("pk"), user=_key(viewer)).order_by()


def _key(viewer: Any) -> Value:
    return Value(viewer.pk, output_field=_owner_column())


def _hidden_key(viewer: Any) -> Func:
    return Func(_key(viewer), template="(SELECT %(expressions)s)")


def _owner_column() -> Any:
    column: Any = Session._meta.get_field("owner")
    return column.target_field


_ROLE = "viewer_role"
_UNREAD = object()
