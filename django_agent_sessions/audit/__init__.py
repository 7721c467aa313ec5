"""The append-only audit trail: who viewed, redacted, exported, held or deleted what, and why.

Events contain no message content and refer to everything by value. They are written to the database
of the sessions and, if a transaction is open, in the transaction of the action that they record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connections, transaction
from django.db.models import QuerySet

from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.db import bridge
from django_agent_sessions.models import AuditEvent

_MAX_NAME = 255
_MAX_REASON = 2000

_acting: ContextVar[tuple[Any, str]] = ContextVar("agent_sessions_actor", default=(None, ""))


@contextmanager
def acting(actor: Any, *, via: str = "") -> Iterator[None]:
    """Set the actor of events that are recorded in this block without one, and their ``via``.

    The deletion of a session is such an event: a cascade from its owner calls no code of ours
    that knows the user who deletes.
    """
    token = _acting.set((actor, via))
    try:
        yield
    finally:
        _acting.reset(token)


def record(
    action: AuditEvent.Action,
    *,
    session: UUID | None = None,
    target: UUID | None = None,
    actor: Any = None,
    reason: str = "",
    secrets: Collection[str] = (),
    details: Mapping[str, Any] | None = None,
    using: str | None = None,
) -> AuditEvent:
    """Write an event. Texts in ``secrets``, which were just redacted, are masked in the reason.

    ``details`` must contain only figures and column names, never message content.
    """
    via = ""
    if actor is None:
        actor, via = _acting.get()
    event = AuditEvent(
        action=action,
        actor_id=_key(actor),
        actor=_name(actor),
        session=session,
        target=target,
        reason=mask_reason(reason, secrets),
        details={**({"via": via} if via else {}), **(details or {})},
    )
    alias = bridge.database(using)
    bridge.require_commits(alias)
    event.save(using=alias)
    return event


def mask_reason(reason: str, secrets: Collection[str] = ()) -> str:
    """Mask personal data and secrets in a reason."""
    # Imported here because compiling their patterns would slow down every start of Django.
    from django_agent_sessions.content import detectors, masking

    clean = masking.mask_texts(displayable(reason), secrets)
    return str(masking.mask_text(clean, detectors.available()))[:_MAX_REASON]


def purge(before: datetime, *, using: str | None = None) -> int:
    """Delete the events created before this time and return their number.

    Events can be deleted in no other way.
    """
    alias = bridge.database(using)
    with transaction.atomic(alias), connections[alias].cursor() as cursor:
        guarded = connections[alias].vendor == "postgresql"
        if guarded:
            # The trigger checks this variable. A failure resets it with the savepoint.
            cursor.execute("SET LOCAL agent_sessions.purge = 'on'")
        old: QuerySet[AuditEvent] = QuerySet(AuditEvent, using=alias)
        count = old.filter(created_at__lt=before).delete()[0]
        if guarded:
            # SET LOCAL lasts until the end of the transaction, which may be the caller's.
            cursor.execute("SET LOCAL agent_sessions.purge = 'off'")
        return count


def _key(actor: Any) -> str:
    key = getattr(actor, "pk", None)
    return "" if key is None else str(key)[:_MAX_NAME]


def _name(actor: Any) -> str:
    if actor is None:
        return ""
    name = actor.get_username() if hasattr(actor, "get_username") else str(actor)
    return displayable(name)[:_MAX_NAME]
