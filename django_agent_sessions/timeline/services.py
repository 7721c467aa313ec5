"""The services: each locks the session, finds what was named anew, changes it and records it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import QuerySet

from django_agent_sessions.db.loop_guard import with_guarded_methods
from django_agent_sessions.exceptions import (
    QuotaExceededError,
    SessionConflictError,
    SessionNotFoundError,
    TargetNotFoundError,
)
from django_agent_sessions.governance import quotas
from django_agent_sessions.governance.session_change import SessionChange, Version, change
from django_agent_sessions.models import MAIN_BRANCH, AuditEvent, Session, SessionMessage
from django_agent_sessions.models.session_names import SessionName, read_named
from django_agent_sessions.store import SessionStore, session_record
from django_agent_sessions.values.owners import EVERYBODY
from django_agent_sessions.values.records import AgentRecord, BranchRecord, SnapshotRecord

from .references import (
    find_branch,
    find_position,
    has_branch,
    has_later_messages,
    is_branch_name_taken,
    restorable_snapshots,
)

R = TypeVar("R")

Action = AuditEvent.Action


def _accept(branch: BranchRecord) -> None:
    """Accept every branch."""


def _accept_fork(fork: UUID) -> bool:
    """Accept every fork."""
    return True


@dataclass
class _Added:
    """The bytes that a change adds; counted once the change is committed."""

    bytes: int = 0
    before: quotas.SessionBytes | None = None
    """Measured before the change, if it changes the session itself."""


@with_guarded_methods
@dataclass(frozen=True)
class Timeline:
    """The changes of a session's timeline, for one user.

    ``name`` is the session: its record, its model instance, its primary key, or its ``session_id``
    without a namespace.
    """

    name: InitVar[SessionName]
    actor: Any
    using: str
    via: str = ""
    expected: Version | None = None
    records_reads: bool = True
    limited: bool = False
    """Whether the quotas of the session's owner apply."""

    reason: str | None = field(default=None, repr=False)
    """The reason of the change, for the audit trail; a setting says which changes require one."""

    session: Session = field(init=False)

    def __post_init__(self, name: SessionName) -> None:
        # A frozen class: the name is resolved once.
        object.__setattr__(self, "session", read_named(name, self.using))

    def fork(
        self,
        *,
        at: UUID | None = None,
        title: str | None = None,
        external_id: str | None = None,
        may_read: Callable[[UUID], bool] = _accept_fork,
    ) -> tuple[UUID, bool]:
        """Create a session with a copy of the messages, up to and including ``at``.

        Return its primary key, and whether it is new: with an ``external_id`` the existing fork
        of the same message is returned, unless the user may not read it.
        """
        added = _Added()

        def apply(current: SessionChange) -> tuple[UUID, bool]:
            if external_id is not None and (siblings := self._siblings(external_id)).exists():
                existing = self._fork_among(siblings, at)
                if existing is None or not may_read(existing):
                    raise SessionConflictError(
                        "Another session already has this external_id. Choose another."
                    )
                if self.records_reads:
                    current.record(Action.READ, view="fork")
                return existing, False
            messages = SessionMessage.objects.using(self.using).filter(session=self.session.pk)
            if at is not None and not messages.filter(pk=at).exists():
                raise TargetNotFoundError("message", "The session has no such message.")
            if self.limited:
                quotas.check_sessions(self.session.owner_id, self.using)
                self._require_room(added)
            fork = self._store.sessions.fork(
                session_record(current.session), at=at, title=title, external_id=external_id
            )
            if added.before is not None:
                added.before = None
                added.bytes = sum(quotas.measure(fork.id, self.using))
            messages_copied = fork.usage.messages
            current.record(Action.FORKED, target=at, fork=str(fork.id), messages=messages_copied)
            return fork.id, True

        return self._change(apply, "forking", Action.FORKED, added, content=True)

    def create_branch(
        self,
        agent: AgentRecord,
        *,
        name: str | None = None,
        source: int | None = None,
        at: UUID | int | None = None,
    ) -> BranchRecord:
        """Create a side branch as a copy of another, up to and including a message."""
        added = _Added()

        def apply(current: SessionChange) -> BranchRecord:
            number, upto = source, None
            if number is not None and not has_branch(self.using, agent.id, number):
                raise TargetNotFoundError("branch", "The agent has no such branch.")
            if at is not None:
                number, position = find_position(self.using, agent, at, number)
                upto = position + 1
            self._check_new_branch(agent, name, added)
            branch = self._store.branches.create(
                agent, name=name, source=number or MAIN_BRANCH, upto=upto
            )
            self._record_read(current, agent.id, view="branch", branch=branch.number)
            return branch

        return self._change(apply, "creating a branch", added=added)

    def rewind(
        self, agent: AgentRecord, to: UUID | int, *, name: str | None = None
    ) -> BranchRecord | None:
        """Rewind to a message; return the branch of the messages after it, if there are any."""
        added = _Added()

        def apply(current: SessionChange) -> BranchRecord | None:
            _, position = find_position(self.using, agent, to, MAIN_BRANCH)
            if has_later_messages(self.using, agent, MAIN_BRANCH, position):
                self._check_new_branch(agent, name, added)
            branch = self._store.branches.rewind(agent, position, name=name)
            if branch is not None:
                target = to if isinstance(to, UUID) else agent.id
                later = branch.length - branch.start
                current.record(Action.REWOUND, target=target, branch=branch.number, set_aside=later)
            return branch

        return self._change(apply, "rewinding", Action.REWOUND, added)

    def switch_branch(
        self, agent: AgentRecord, number: int, check: Callable[[BranchRecord], None] = _accept
    ) -> BranchRecord:
        """Make a side branch the main branch; return the former one with its new number.

        ``check`` may refuse the branch as it is when the session is locked.
        """
        added = _Added()

        def apply(current: SessionChange) -> BranchRecord:
            check(find_branch(self.using, agent, number))
            # The present state becomes a snapshot.
            self._require_room(added, messages=False)
            former = self._store.branches.switch(agent, number)
            current.record(Action.RESTORED, target=agent.id, branch=number, left=former.number)
            return former

        return self._change(apply, "switching branches", Action.RESTORED, added)

    def delete_branch(
        self, agent: AgentRecord, number: int, check: Callable[[BranchRecord], None] = _accept
    ) -> int:
        """Delete a side branch and return its number of messages; ``check`` may refuse it."""

        def apply(current: SessionChange) -> int:
            check(find_branch(self.using, agent, number))
            deleted = self._store.branches.delete(agent, number)
            current.record(Action.BRANCH_DELETED, target=agent.id, branch=number, messages=deleted)
            return deleted

        return self._change(apply, "deleting a branch", Action.BRANCH_DELETED)

    def take_snapshot(self, agent: AgentRecord) -> SnapshotRecord:
        """Take a snapshot of an agent."""
        added = _Added()

        def apply(current: SessionChange) -> SnapshotRecord:
            if self.limited:
                quotas.check_snapshots(self.session, self.using)
            self._require_room(added, messages=False)
            snapshot = self._store.snapshots.take(agent)
            self._record_read(current, agent.id, view="snapshot", snapshot=str(snapshot.id))
            return snapshot

        return self._change(apply, "taking a snapshot", added=added)

    def restore_snapshot(self, agent: AgentRecord, snapshot: UUID) -> SnapshotRecord:
        """Restore an agent to a snapshot."""
        added = _Added()

        def apply(current: SessionChange) -> SnapshotRecord:
            if not restorable_snapshots(self.using, agent).filter(pk=snapshot).exists():
                raise TargetNotFoundError("snapshot", "The agent has no such snapshot.")
            self._check_branch(added)
            restored = self._store.snapshots.restore(agent, snapshot)
            current.record(Action.RESTORED, target=snapshot, messages=restored.length)
            return restored

        return self._change(apply, "restoring a snapshot", Action.RESTORED, added)

    # --- parts -------------------------------------------------------------------------------

    @property
    def _store(self) -> SessionStore:
        # The caller has checked who may change the session.
        return SessionStore(owner=EVERYBODY, using=self.using)

    def _change(
        self,
        apply: Callable[[SessionChange], R],
        verb: str,
        action: AuditEvent.Action | None = None,
        added: _Added | None = None,
        *,
        content: bool = False,
    ) -> R:
        what = f"{verb} in session {self.session.pk}"

        def check_owner(current: SessionChange) -> R:
            if current.session.owner_id != self.session.owner_id:
                raise SessionNotFoundError(f"{what}: the session has another owner now")
            if added is None:
                return apply(current)
            added.bytes, added.before = 0, None
            result = apply(current)
            if (before := added.before) is not None:
                after = quotas.measure(self.session.pk, self.using, messages=before.messages > 0)
                added.bytes = sum(after) - sum(before)
            return result

        receipt = change(
            self.session.pk,
            check_owner,
            what=what,
            actor=self.actor,
            via=self.via,
            action=action,
            reason=self.reason,
            expected=self.expected,
            content=content,
            using=self.using,
        )
        if added is not None:
            quotas.count_bytes(self.session.owner_id, added.bytes, self.using)
        return receipt.result

    def _record_read(self, current: SessionChange, target: UUID | None, **details: Any) -> None:
        current.changed = True
        if self.records_reads:
            current.record(Action.READ, target=target, **details)

    def _check_new_branch(self, agent: AgentRecord, name: str | None, added: _Added) -> None:
        try:
            self._check_branch(added)
        except QuotaExceededError:
            # Of a name that exists, the store creates no branch: it raises the conflict.
            if not is_branch_name_taken(self.using, agent, name):
                raise

    def _check_branch(self, added: _Added) -> None:
        if self.limited:
            quotas.check_branches(self.session.owner_id, self.using)
        self._require_room(added)

    def _require_room(self, added: _Added, *, messages: bool = True) -> None:
        """Measure the session; refuse a change whose copy would exceed the quota of bytes."""
        owner = self.session.owner_id
        if self.limited and quotas.counts_bytes(owner):
            added.before = quotas.measure(self.session.pk, self.using, messages=messages)
            quotas.require_room(owner, added.before.messages + added.before.states, self.using)

    def _siblings(self, external_id: str) -> QuerySet[Session]:
        """Return the sessions that keep a fork from having an external id."""
        return Session.objects.using(self.using).filter(
            owner=self.session.owner_id,
            namespace=self.session.namespace,
            scope=self.session.scope,
            external_id=external_id,
        )

    def _fork_among(self, sessions: QuerySet[Session], at: UUID | None) -> UUID | None:
        """Return the first of the sessions that is a fork of this one at a message, or None.

        The database lets several sessions without an owner have the same external id.
        """
        source = {"session": self.session.pk, "message": at}
        forks = sessions.filter(forked_from=self.session.forked_from or self.session.pk)
        rows = forks.only("forked_from", "origin").order_by("pk")
        return next((row.pk for row in rows if fork_source(row) == source), None)


def fork_source(session: Session) -> dict[str, UUID | None] | None:
    """Return the session and message that this one was forked from, or None."""
    if session.forked_from is None:
        return None
    origin: Any = session.origin
    try:
        fork = origin["fork"]
        message = fork["message"]
        return {
            "session": UUID(fork["session"]),
            "message": None if message is None else UUID(message),
        }
    except (KeyError, TypeError, ValueError):
        return None
