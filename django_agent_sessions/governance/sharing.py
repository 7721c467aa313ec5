"""Share a session: participants who read or write it, and links that show it to anybody.

::

    from django_agent_sessions.governance import sharing

    sharing.add_participant(session.pk, bob, "writer", actor=request.user)
    link, token = sharing.create_link(session.pk, timedelta(days=7), actor=request.user)

The caller checks who may share; each change is recorded.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Q
from django.utils import timezone

from django_agent_sessions import conf
from django_agent_sessions.db import bridge
from django_agent_sessions.db.loop_guard import sync_only
from django_agent_sessions.exceptions import (
    ConfigurationError,
    QuotaExceededError,
    SessionNotFoundError,
)
from django_agent_sessions.models import AuditEvent, Participant, ShareLink
from django_agent_sessions.models.access import reach_of
from django_agent_sessions.models.deletion import TOMBSTONE_NAMESPACE
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.models.roles import SessionRole, role_in, store_owner
from django_agent_sessions.models.session_names import SessionName, read_named, session_key
from django_agent_sessions.models.sharing import hash_of
from django_agent_sessions.models.users import users
from django_agent_sessions.values.owners import EVERYBODY, NOBODY, owner_key

from .session_change import SessionChange, change

R = TypeVar("R")

MAX_PARTICIPANTS = 200
"""Maximum number of participants of a session."""

MAX_LINKS = 100
"""Maximum number of valid links of a session."""

_TOKEN_BYTES = 32


@sync_only
def add_participant(
    session: SessionName,
    user: Any,
    role: str,
    *,
    actor: Any = None,
    via: str = "",
    using: str | None = None,
) -> Participant:
    """Add a participant, or give a participant another role.

    Args:
        session: The session.
        user: The user, or the user's primary key.
        role: ``"reader"`` or ``"writer"``.
        actor: The user who shares, or a text that names a program.
        via: The way by which it is shared, for the audit trail.
        using: The database alias.

    Raises:
        ConfigurationError: The role has another value, or ``user`` is no user.
        SessionNotFoundError: There is no such session or user, or the user owns the session.
        QuotaExceededError: The session has 200 participants.
    """
    pk = session_key(session, using)
    if role not in Participant.Role.values:
        raise ConfigurationError(f"the role is {role!r}, not 'reader' or 'writer'")
    key, what = _user_key(user), f"adding a participant to session {pk}"

    def apply(current: SessionChange) -> Participant:
        if current.session.owner_id == key or not users(current.using).filter(pk=key).exists():
            raise SessionNotFoundError(f"{what}: there is no such user, or the user owns it")
        rows = Participant.objects.using(current.using).filter(session=pk)
        participant = rows.filter(user=key).first()
        if participant is not None and participant.role == role:
            return participant
        if participant is None:
            if rows.count() >= MAX_PARTICIPANTS:
                raise QuotaExceededError(f"A session has at most {MAX_PARTICIPANTS} participants.")
            participant = Participant(session_id=pk, user_id=key)
        participant.role = role
        event = current.record(AuditEvent.Action.PARTICIPANT_ADDED, user=str(key), role=role)
        if participant._state.adding:
            participant.added_by = _actor_of(event)
        participant.save(using=current.using)
        return participant

    return _change(pk, apply, what, actor, via, using)


@sync_only
def remove_participant(
    session: SessionName, user: Any, *, actor: Any = None, via: str = "", using: str | None = None
) -> bool:
    """Remove a participant. Returns False if the user is none."""
    pk = session_key(session, using)
    key = _user_key(user)

    def apply(current: SessionChange) -> bool:
        rows = Participant.objects.using(current.using).filter(session=pk, user=key)
        if not rows.delete()[0]:
            return False
        current.record(AuditEvent.Action.PARTICIPANT_REMOVED, user=str(key))
        return True

    what = f"removing a participant of session {pk}"
    return _change(pk, apply, what, actor, via, using)


@sync_only
def create_link(
    session: SessionName,
    lifetime: timedelta,
    *,
    actor: Any = None,
    via: str = "",
    using: str | None = None,
) -> tuple[ShareLink, str]:
    """Create a link; return it with its token, which is stored nowhere and cannot be read again.

    Args:
        session: The session.
        lifetime: For how long the link is valid: at most ``AGENT_SESSIONS["SHARE_LINK_SECONDS"]``.
        actor: The user who shares, or a text that names a program.
        via: The way by which it is shared, for the audit trail.
        using: The database alias.

    Raises:
        ConfigurationError: Links are switched off (``AGENT_SESSIONS["SHARE_LINKS"]``), or the
            lifetime is not positive or too long.
        SessionNotFoundError: There is no such session.
        QuotaExceededError: The session has 100 valid links.
    """
    pk = session_key(session, using)
    settings = conf.get_settings()
    if not settings.SHARE_LINKS:
        raise ConfigurationError("AGENT_SESSIONS['SHARE_LINKS'] is off")
    if not timedelta(0) < lifetime <= timedelta(seconds=settings.SHARE_LINK_SECONDS):
        raise ConfigurationError(
            f"the lifetime of a link must be positive and at most {settings.SHARE_LINK_SECONDS} "
            "seconds (SHARE_LINK_SECONDS)"
        )
    token = secrets.token_urlsafe(_TOKEN_BYTES)

    def apply(current: SessionChange) -> ShareLink:
        now = timezone.now()
        rows = ShareLink.objects.using(current.using).filter(session=pk)
        if rows.filter(revoked_at=None, expires_at__gt=now).count() >= MAX_LINKS:
            raise QuotaExceededError(f"A session has at most {MAX_LINKS} links: revoke some first.")
        link = ShareLink(
            session_id=pk,
            token_hash=hash_of(token),
            expires_at=now + lifetime,
            created_at=now,
        )
        expiry = link.expires_at.isoformat(timespec="seconds")
        event = current.record(AuditEvent.Action.LINK_CREATED, target=link.pk, expires=expiry)
        link.created_by = _actor_of(event)
        link.save(using=current.using)
        return link

    what = f"creating a link to session {pk}"
    return _change(pk, apply, what, actor, via, using), token


@sync_only
def revoke_link(
    session: SessionName, link: UUID, *, actor: Any = None, via: str = "", using: str | None = None
) -> bool:
    """Revoke a link of a session. Returns False if it has none of this key that is valid."""
    pk = session_key(session, using)

    def apply(current: SessionChange) -> bool:
        rows = ShareLink.objects.using(current.using).filter(session=pk, pk=link)
        if not rows.filter(revoked_at=None).update(revoked_at=timezone.now()):
            return False
        current.record(AuditEvent.Action.LINK_REVOKED, target=link)
        return True

    what = f"revoking a link to session {pk}"
    return _change(pk, apply, what, actor, via, using)


@sync_only
def find_link(token: str, *, using: str | None = None) -> ShareLink | None:
    """Return the valid link with this token; None if links are switched off."""
    if not conf.get_settings().SHARE_LINKS:
        return None
    rows = ShareLink.objects.using(bridge.database(using)).exclude(
        session__namespace=TOMBSTONE_NAMESPACE
    )
    valid = Q(revoked_at=None, expires_at__gt=timezone.now())
    return rows.filter(valid, token_hash=hash_of(token)).first()


@sync_only
def owner_for(viewer: Any, session: SessionName, *, write: bool = True) -> Any:
    """Return what a user who has access passes as ``owner`` to a store or an adapter.

    It is the owner's identity, with all of the owner's rights: neither the store nor an adapter
    knows the user's role.

    Args:
        viewer: The user.
        session: The session.
        write: Whether the user may write, as the owner and writers may. With False also readers,
            and users whom the access rule permits ``VIEW`` and ``READ``: write nothing with the
            value that they get.

    Raises:
        SessionNotFoundError: The user has no such access to the session.
    """
    session = read_named(session)
    part = role_in(viewer, session)
    allowed = part in (SessionRole.OWNER, SessionRole.WRITER) or (
        part is SessionRole.READER and not write
    )
    if not allowed and not write:
        rule = reach_of(viewer, SessionPermission.VIEW, SessionPermission.READ)
        allowed = bool(rule) and rule.includes(session)
    if not allowed or session.namespace == TOMBSTONE_NAMESPACE:
        message = f"session {session.pk} does not exist, or has another owner"
        hint = "; pass write=False for a user who only reads" if write else ""
        raise SessionNotFoundError(message + hint)
    return store_owner(session)


def _change(
    session: UUID,
    apply: Callable[[SessionChange], R],
    what: str,
    actor: Any,
    via: str,
    using: str | None,
) -> R:
    def checked(current: SessionChange) -> R:
        if current.session.namespace == TOMBSTONE_NAMESPACE:
            raise SessionNotFoundError(f"{what}: the session does not exist")
        return apply(current)

    return change(session, checked, what=what, actor=actor, via=via, using=using).result


def _user_key(user: Any) -> Any:
    key = owner_key(user)
    if key is NOBODY or key is EVERYBODY:
        raise ConfigurationError("a participant must be a user or a user's primary key")
    return key


def _actor_of(event: AuditEvent) -> str:
    """Return the key of a user, or the name of a program."""
    return event.actor_id or event.actor
