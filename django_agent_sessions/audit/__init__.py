"""The append-only audit trail: who viewed, redacted, exported, held or deleted what, and why.

Events contain no message content and refer to everything by value. They are written to the database
of the sessions and, if a transaction is open, in the transaction of the action that they record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db import connections, transaction
from django.db.models import Q, QuerySet
from django.utils.functional import LazyObject

from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.db import bridge, connection_state
from django_agent_sessions.db.loop_guard import sync_only
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.models import AuditEvent
from django_agent_sessions.models.session_names import SessionName, session_key
from django_agent_sessions.models.users import users
from django_agent_sessions.values.owners import NO_KEY

_MAX_NAME = 255
MAX_REASON = 2000
"""The most characters of a reason."""

_PURGE_BATCH = 5_000

_USER_DETAILS = frozenset(
    {"actor", "actor_id", "by", "owner", "owner_id", "person", "user", "user_id"}
)
"""Names of details whose value is a user's key."""

_CODES = frozenset(
    {
        "action",
        "charset",
        "column",
        "content_type",
        "format",
        "forks",
        "kind",
        "kinds",
        "media",
        "operation",
        "page",
        "role",
        "state",
        "trigger",
        "via",
        "view",
        "what",
        "why",
    }
)
"""Names of details whose values are words of this package. Users choose their names."""

_OPERATION = "operation_key"
"""The detail of an event of an operation whose target is something else."""


@dataclass(frozen=True, slots=True)
class _Acting:
    """What :func:`acting` set."""

    actor: Any = None
    via: str = ""
    reason: str = ""
    target: UUID | None = None
    checked: set[str] = field(default_factory=set)
    """The databases in which no user has the actor's name or key."""

    def check(self, using: str) -> None:
        """Refuse a username, in the first event and not before: then a loop may be running."""
        if isinstance(self.actor, str) and using not in self.checked:
            refuse_username(self.actor, using=using)
            self.checked.add(using)


_NOBODY = _Acting()
_acting: ContextVar[_Acting] = ContextVar("agent_sessions_actor", default=_NOBODY)


@contextmanager
def acting(
    actor: Any, *, via: str = "", reason: str = "", target: UUID | None = None
) -> Iterator[None]:
    """Set actor, ``via``, reason and target of events recorded in this block without an actor.

    The deletion of a session is such an event: a cascade from its owner calls no code of ours
    that knows the user who deletes.

    Raises ``ConfigurationError`` for an actor that is neither a user nor a text. A text that is
    the name or primary key of a user is refused with the first event. For an anonymous user, events
    have no actor, because a block may be around any request.
    """
    if not isinstance(actor, LazyObject):
        _refuse_other_types(actor)
    token = _acting.set(_Acting(actor, via, reason, target))
    try:
        yield
    finally:
        _acting.reset(token)


@sync_only
def record(
    action: AuditEvent.Action,
    *,
    session: SessionName | None = None,
    target: UUID | None = None,
    actor: Any = None,
    reason: str = "",
    secrets: Collection[str] = (),
    details: Mapping[str, Any] | None = None,
    using: str | None = None,
) -> AuditEvent:
    """Write an event. Texts in ``secrets``, which were just redacted, are masked in the reason.

    ``details`` must contain only figures and column names, never message content.

    Raises ``ConfigurationError`` for an actor that is neither a user nor a text, for an anonymous
    user, and for a text that is the name or primary key of a user.
    """
    refuse_username(actor, using=bridge.database(using))
    return record_checked(
        action,
        session=None if session is None else session_key(session, using),
        target=target,
        actor=actor,
        reason=reason,
        secrets=secrets,
        details=details,
        using=using,
    )


def record_checked(
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
    """Write an event by an actor that :func:`refuse_username` has accepted; see :func:`record`."""
    via, alias = "", bridge.database(using)
    if actor is None:
        acting = _acting.get()
        acting.check(alias)
        actor, via, own_target = acting.actor, acting.via, target
        reason, target = reason or acting.reason, target or acting.target
        if own_target and acting.target:
            details = {**(details or {}), _OPERATION: str(acting.target)}
    event = AuditEvent(
        action=action,
        actor_id=_key(actor),
        actor=actor_name(actor),
        session=session,
        target=target,
        reason=mask_reason(reason, secrets),
        details={**({"via": via} if via else {}), **(details or {})},
    )
    connection_state.require_commits(alias)
    event.save(using=alias)
    return event


def record_each(
    action: AuditEvent.Action, targets: Mapping[UUID, UUID], *, actor: Any, using: str
) -> None:
    """Write an event for each session, about one of its messages, in one statement."""
    connection_state.require_commits(using)
    who = {"actor_id": _key(actor), "actor": actor_name(actor)}
    AuditEvent.objects.using(using).bulk_create(
        AuditEvent(action=action, session=session, target=target, **who)
        for session, target in targets.items()
    )


def record_all(
    action: AuditEvent.Action, details: Mapping[UUID, Mapping[str, Any]], *, using: str
) -> None:
    """Write an event for each session, by the actor of :func:`acting`, in one statement."""
    connection_state.require_commits(using)
    acting = _acting.get()
    acting.check(using)
    reason = mask_reason(acting.reason) if acting.reason else ""
    source = {"via": acting.via} if acting.via else {}
    AuditEvent.objects.using(using).bulk_create(
        AuditEvent(
            action=action,
            actor_id=_key(acting.actor),
            actor=actor_name(acting.actor),
            session=session,
            target=acting.target,
            reason=reason,
            details={**source, **more},
        )
        for session, more in details.items()
    )


def mask_reason(reason: str, secrets: Collection[str] = ()) -> str:
    """Mask personal data and secrets in a reason."""
    # Imported here because compiling their patterns would slow down every start of Django.
    from django_agent_sessions.content import detectors, masking

    clean = masking.mask_texts(displayable(reason), secrets)
    return str(masking.mask_text(clean, detectors.available()))[:MAX_REASON]


@sync_only
def purge(before: datetime, *, using: str | None = None) -> int:
    """Delete the events created before this time, in batches, and return their number.

    Apart from this, only the lifetime ``AUDIT_EVENTS`` of ``RETENTION`` deletes events.
    """
    count = 0
    while deleted := purge_batch(before, using=using):
        count += deleted
    return count


def purge_batch(before: datetime, *, using: str | None = None) -> int:
    """Delete as many of these events as one transaction should, and return their number."""
    alias = bridge.database(using)
    old = _events(alias).filter(created_at__lt=before).order_by("created_at")
    with _permitted("purge", alias):
        keys = list(old.values_list("pk", flat=True)[:_PURGE_BATCH])
        return _events(alias).filter(pk__in=keys).delete()[0] if keys else 0


def mask_reasons(session: UUID, secrets: Collection[str], *, using: str) -> int:
    """Mask texts, which were redacted in a session, in the reasons of its earlier events.

    Also in those of operations on all matches that changed it. Events can be changed in no other
    way. Returns the number of changed events.
    """
    from django_agent_sessions.content import masking

    if not secrets:
        return 0
    operations = operations_on(session, using=using)
    of_operations = Q(action=AuditEvent.Action.OPERATION, target__in=operations)
    rows = _events(using).filter(Q(session=session) | of_operations).exclude(reason="")
    masked = {
        key: new
        for key, reason in rows.values_list("pk", "reason").order_by("pk")
        if (new := masking.mask_texts(reason, secrets)[:MAX_REASON]) != reason
    }
    if masked:
        with _permitted("mask", using):
            for key, reason in masked.items():
                _events(using).filter(pk=key).update(reason=reason)
    return len(masked)


def operations_on(session: UUID, *, using: str) -> set[UUID]:
    """Return the operations on all matches that have an event of this session."""
    rows = _events(using).filter(session=session, details__via="operation").order_by()
    found = {
        UUID(details[_OPERATION]) if _OPERATION in details else target
        for target, details in rows.values_list("target", "details")
    }
    return {key for key in found if key is not None}


def pseudonymize(key: str, names: Collection[str], pseudonym: str, *, using: str) -> int:
    """Replace a user's key and names in all events, for an erasure; the events stay.

    ``key`` is replaced as the actor's key, ``names`` in the reasons of all events as whole words,
    and both in their details: except in names of details and in the codes of this package, and a
    number only if its name says that it is a user. It reads the details of all events.

    Returns the number of events of the actor.
    """
    from django_agent_sessions.content import masking

    rows = _events(using)
    changed = list(_renamed_details(rows, key, names, pseudonym))
    named = Q()
    for name in names:
        named |= Q(reason__icontains=name)
    with _permitted("erase", using):
        if named:
            for event, reason in list(rows.filter(named).values_list("pk", "reason")):
                masked = masking.mask_texts(reason, names, words=True)[:MAX_REASON]
                rows.filter(pk=event).update(reason=masked)
        for event, details in changed:
            rows.filter(pk=event).update(details=details)
        return rows.filter(actor_id=key).update(actor_id=pseudonym, actor=pseudonym)


def _renamed_details(
    rows: QuerySet[AuditEvent], key: str, names: Collection[str], pseudonym: str
) -> Iterator[tuple[UUID, Any]]:
    """Yield the events whose details have a user's key or name, with new details."""
    ordered = rows.exclude(details={}).order_by("pk").values_list("pk", "details")
    batch = list(ordered[:_PURGE_BATCH])
    while batch:
        for event, details in batch:
            renamed = _renamed(details, "", key, names, pseudonym)
            if renamed != details:
                yield event, renamed
        batch = list(ordered.filter(pk__gt=batch[-1][0])[:_PURGE_BATCH])


def _renamed(value: Any, name: str, key: str, names: Collection[str], pseudonym: str) -> Any:
    from django_agent_sessions.content import masking

    if isinstance(value, dict):
        return {
            each: one if each in _CODES else _renamed(one, each, key, names, pseudonym)
            for each, one in value.items()
        }
    if isinstance(value, list):
        return [_renamed(one, name, key, names, pseudonym) for one in value]
    if str(value) == key and (name in _USER_DETAILS or not key.isdecimal()):
        return pseudonym
    is_text = isinstance(value, str) and bool(names)
    return masking.mask_texts(value, names, words=True) if is_text else value


def _events(using: str) -> QuerySet[AuditEvent]:
    """Return the events without the guard of their own queryset."""
    return QuerySet(AuditEvent, using=using)


@contextmanager
def _permitted(action: str, using: str) -> Iterator[None]:
    """Let PostgreSQL's trigger permit ``purge``, ``mask`` (reasons) or ``erase`` (also actors)."""
    with transaction.atomic(using), connections[using].cursor() as cursor:
        guarded = connections[using].vendor == "postgresql"
        if guarded:
            # The trigger checks this variable. A failure resets it with the savepoint.
            cursor.execute(f"SET LOCAL agent_sessions.{action} = 'on'")
        yield
        if guarded:
            # SET LOCAL lasts until the end of the transaction, which may be the caller's.
            cursor.execute(f"SET LOCAL agent_sessions.{action} = 'off'")


def _key(actor: Any) -> str:
    key = getattr(actor, "pk", None)
    return "" if key is None else str(key)[:_MAX_NAME]


def refuse_username(actor: Any, *, using: str) -> None:
    """Refuse a text that is the name or key of a user as an actor, and users without a key.

    The event would not be the user's: an actor's key is that of an object.

    Raises ``ConfigurationError``, for a value that is neither a user nor a text, too.
    """
    _refuse_other_types(actor)
    if isinstance(actor, str):
        if names_user(actor, using=using):
            raise ConfigurationError(
                "the actor is a text, and the name or primary key of a user: pass the user as "
                "actor, or another text for a program"
            )
    elif actor is not None and actor.pk is None:
        raise ConfigurationError(
            "the actor is an anonymous or unsaved user: require a login and pass the user, or "
            "pass a text for a program"
        )


def names_user(text: str, *, using: str) -> bool:
    """Return whether a text is the name or the primary key of a user, with one query."""
    model = get_user_model()
    # As events have it; PostgreSQL takes no NUL.
    name = displayable(text)
    found = Q(**{model.USERNAME_FIELD: name})
    with suppress(*NO_KEY):
        found |= Q(pk=model._meta.pk.to_python(name))
    return users(using).filter(found).exists()


def _refuse_other_types(actor: Any) -> None:
    if actor is not None and not isinstance(actor, str) and not hasattr(actor, "pk"):
        raise ConfigurationError(
            f"the actor must be a user, or a text that names a program, not a "
            f"{type(actor).__name__}"
        )


def actor_name(actor: Any) -> str:
    """Return the name of a user or program as events have it."""
    if actor is None:
        return ""
    name = actor.get_username() if hasattr(actor, "get_username") else str(actor)
    return displayable(name)[:_MAX_NAME]
