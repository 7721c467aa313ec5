"""Change a session: plan without the lock, lock the session, check the plan, apply it, record it.

Services of this package and of ``timeline`` change a session with :func:`change` only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from uuid import UUID

from django.db import connections

from django_agent_sessions import audit
from django_agent_sessions.db import bridge
from django_agent_sessions.db.connection_state import in_caller_transaction
from django_agent_sessions.db.retries import write
from django_agent_sessions.exceptions import (
    SessionConflictError,
    SessionNotFoundError,
)
from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.store.locking import Removal, lock_session, with_lock
from django_agent_sessions.values import observing

from . import reasons

R = TypeVar("R")

_SEARCHES_WITHOUT_LOCK = 2
"""Then the next one has the lock. More would not end sooner: who writes faster than a search reads
writes during each."""


class Version(NamedTuple):
    """What a caller has seen of a session; an exclusive operation of another process changes it."""

    change: int
    epoch: int


def version_of(session: Session) -> Version:
    """Return the version to pass as ``expected``."""
    return Version(session.change, session.redaction_epoch)


class Plan(Protocol):
    """The part of a change that takes long, prepared without the session's lock."""

    def search(self) -> None:
        """Search, unless that was done and the plan is not outdated."""

    def is_outdated(self, session: Session) -> bool:
        """Return, with the session's lock, whether a row was written since the search."""

    def attempt(self) -> AbstractContextManager[None]:
        """Return a context manager around one attempt of the transaction."""


@dataclass
class SessionChange:
    """A change in progress, with the session's row locked."""

    using: str
    session: Session
    actor: Any = None
    via: str = ""
    reason: str = ""
    changed: bool = False
    is_silent: bool = False
    """Whether the owner and participants see nothing of it, so that no event stream tells it."""
    events: list[AuditEvent] = field(default_factory=list)

    def record(
        self,
        action: AuditEvent.Action,
        *,
        session: UUID | None = None,
        target: UUID | None = None,
        secrets: Collection[str] = (),
        **details: Any,
    ) -> AuditEvent:
        """Write the audit event; the details hold ids and figures only."""
        event = audit.record_checked(
            action,
            session=session or self.session.pk,
            target=target,
            actor=self.actor,
            reason=self.reason,
            secrets=secrets,
            details={"via": self.via, **details} if self.via else details,
            using=self.using,
        )
        self.changed = True
        self.events.append(event)
        return event


@dataclass(frozen=True, slots=True)
class Receipt(Generic[R]):
    """A committed change."""

    result: R
    changed: bool
    events: tuple[UUID, ...]
    is_silent: bool = False


class _OutdatedPlanError(Exception):
    """Rows were written since the plan was made."""


_last_step: ContextVar[Callable[[SessionChange], None] | None] = ContextVar(
    "agent_sessions_last_step", default=None
)


@contextmanager
def last_step(step: Callable[[SessionChange], None]) -> Iterator[None]:
    """Call a function at the end of the transaction of each change in this block."""
    token = _last_step.set(step)
    try:
        yield
    finally:
        _last_step.reset(token)


def change(
    session: UUID,
    apply: Callable[[SessionChange], R],
    *,
    what: str,
    actor: Any = None,
    via: str = "",
    action: AuditEvent.Action | None = None,
    reason: str | None = None,
    expected: Version | None = None,
    removes: Removal = False,
    plan: Plan | None = None,
    silent: bool = False,
    content: bool = False,
    using: str | None = None,
) -> Receipt[R]:
    """Change a session in one transaction, with its row locked, and once only.

    A plan is searched before the transaction begins, because a search can take long and SQLite has
    one lock for all writers. If a row was written meanwhile, it is searched again; the third time
    with the lock. In a caller's transaction the session is locked first: other processes wait for
    that transaction anyway.

    ``action`` is the one whose rule for reasons applies, if any. ``expected`` is the version that
    the caller has seen; if the session has another one, ``SessionConflictError`` is raised. What
    ``removes`` is refused under legal hold, except by a plan, which checks what it found. A
    ``silent`` change leaves the change number as it is. ``content`` says that ``apply`` reads the
    session's title or metadata, whose data key may have been destroyed.
    """
    reason = "" if action is None else reasons.clean_reason(action, reason, what=what)
    alias = bridge.database(using)
    audit.refuse_username(actor, using=alias)
    joined = in_caller_transaction(connections[alias])
    searches_left = 0 if joined else _SEARCHES_WITHOUT_LOCK

    def lock() -> Session:
        if (row := lock_session(alias, session, content=content)) is None:
            raise SessionNotFoundError(f"{what}: the session does not exist")
        return row

    def work(row: Session) -> Receipt[R]:
        if expected is not None and expected != version_of(row):
            raise SessionConflictError(f"{what}: the session changed; reload it and try again")
        if plan is not None and plan.is_outdated(row):
            if searches_left:
                raise _OutdatedPlanError
            plan.search()
        current = SessionChange(alias, row, actor, via, reason, is_silent=silent)
        result = apply(current)
        if (step := _last_step.get()) is not None:
            step(current)
        events = tuple(event.pk for event in current.events)
        return Receipt(result, current.changed, events, current.is_silent)

    def carry_out() -> Receipt[R]:
        nonlocal searches_left
        while True:
            if plan is not None and searches_left:
                write(alias, lambda unsure: plan.search(), what=what)
                searches_left -= 1
            try:
                return with_lock(
                    alias,
                    lock,
                    work,
                    what=what,
                    removes=removes,
                    around=nullcontext if plan is None else plan.attempt,
                    changed=lambda receipt: receipt.changed,
                    counted=lambda receipt: not receipt.is_silent,
                )
            except _OutdatedPlanError:
                continue

    observer = observing.current
    if observer is None or (operation := _OPERATIONS.get(action)) is None:
        return carry_out()
    return observer.run(operation, carry_out, {"agent_sessions.session": session})


_OPERATIONS: dict[AuditEvent.Action | None, str] = {
    AuditEvent.Action.BRANCH_DELETED: "branches.delete",
    AuditEvent.Action.DELETED: "delete",
    AuditEvent.Action.FORKED: "sessions.fork",
    AuditEvent.Action.HELD: "hold",
    AuditEvent.Action.REDACTED: "redact",
    AuditEvent.Action.RELEASED: "release",
    AuditEvent.Action.REWOUND: "branches.rewind",
}
"""What telemetry calls a change; another one is what the store's method is called."""
