"""Snapshots as an SDK's storage writes and reads them: references to messages, and the rest."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import F, Q
from django.utils import timezone

from django_agent_sessions import transcripts
from django_agent_sessions.exceptions import (
    SessionConflictError,
    StaleSessionError,
)
from django_agent_sessions.ids import new_id
from django_agent_sessions.leftovers import overwrite_leftovers
from django_agent_sessions.models import (
    MAIN_BRANCH,
    Branch,
    Session,
    SessionAgent,
    Snapshot,
)
from django_agent_sessions.querysets import CONTENT_TEXT
from django_agent_sessions.records import AgentRecord, AgentState, Usage
from django_agent_sessions.transient import TryAgainError

from .agents import AgentStore, agent_record
from .alone import alone
from .base import repeatable
from .branches import BranchStore
from .cleaning import clean
from .documents import document_of
from .moments import LATEST, ranges
from .orchestrations import OrchestratorSnapshotStore
from .statement_sizes import check_values_size

_MOST_RANGES = 20
_TRIES = 5


class LastRow(NamedTuple):
    """The last message of a conversation: as long as it is there, so are all before it."""

    position: int
    key: UUID
    revision: int


@dataclass(frozen=True, slots=True)
class Head:
    """What a save finds, with the session's row locked.

    Attributes:
        session: Primary key of the session.
        epoch: Its redaction epoch.
        agent: The agent, on the main branch.
        revision: Of the agent's latest snapshot; None if there is none.
        last: The last message of the main branch, if there is one.
    """

    session: UUID
    epoch: int
    agent: AgentRecord
    revision: int | None
    last: LastRow | None

    @property
    def end(self) -> int:
        """The position behind the last message."""
        return 0 if self.last is None else self.last.position + 1


@dataclass(frozen=True, slots=True)
class Saving:
    """What a save writes.

    Attributes:
        document: All of the snapshot but its messages.
        messages: References to messages, as ``Snapshot.messages`` has them.
        appended: Messages that are new, for the end of the conversation.
        keep: Position of the last message that stays on the main branch; None if all do.
        kind: What a side branch is that takes the others.
        updated: Messages that changed, by their positions.
        state: The agent's state; None if it stays as it is.
    """

    document: Any
    messages: list[Any]
    appended: Sequence[Any] = ()
    keep: int | None = None
    kind: str = Branch.Kind.REWOUND
    updated: Sequence[tuple[int, Any]] = ()
    state: AgentState | None = None

    @property
    def length(self) -> int:
        """The position behind the last message that it refers to."""
        return max(map(_stop, self.messages), default=0)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A snapshot as it was read.

    Attributes:
        session: Primary key of its session.
        epoch: The session's redaction epoch.
        agent: Primary key of its agent.
        revision: Of the agent's latest snapshot; None if there is none.
        last: The last message of the main branch.
        branch: The branch that it refers to.
        messages: Its references.
        document: All of it but its messages.
        contents: What its messages say, by position, redacted where they were redacted.
        redacted: Positions of those that were.
    """

    session: UUID
    epoch: int
    agent: UUID
    revision: int | None
    last: LastRow | None
    branch: int
    messages: list[Any]
    document: Any
    contents: dict[int, Any] = field(default_factory=dict)
    redacted: frozenset[int] = frozenset()


class SnapshotStore(BranchStore, OrchestratorSnapshotStore, AgentStore):
    """The part of the store that keeps snapshots for an SDK's storage."""

    def save_snapshot(
        self,
        session_id: str,
        agent_id: str,
        snapshot_id: str,
        plan: Callable[[Head], Saving],
    ) -> Head:
        """Writes a snapshot, and of its messages what is new.

        Args:
            session_id: The session, which is made if there is none.
            agent_id: The agent, which is made if there is none.
            snapshot_id: The snapshot; empty for the latest.
            plan: Says what to write. It is called with the session's row locked, and again if
                somebody else's write came in between.

        Returns:
            What there is now.

        Raises:
            SessionNotFoundError: The session is somebody else's.
            SessionConflictError: Others were faster each time.
            StaleSessionError: As the plan says.
            InvalidIdError: An id cannot be one.
            PayloadError: Something is not JSON or over a limit; nothing was written.
        """
        what = f"saving a snapshot of agent {agent_id!r} in session {session_id!r}"

        def save(session: Session) -> Head:
            try:
                head = self._head(session, agent_id)
                saving = plan(head)
                erases = overwrite_leftovers(self.using) if saving.updated else None
                with erases or contextlib.nullcontext():
                    return self._save(head, snapshot_id, saving)
            except StaleSessionError:
                raise
            except SessionConflictError as error:
                # A manager that writes message by message takes no lock.
                raise TryAgainError from error

        lock = functools.partial(self._lock_by_name, session_id)
        return alone(self.using, lock, save, what=what, savepoint=False)

    def _head(self, session: Session, agent_id: str) -> Head:
        agents = self._agents().filter(session=session.pk, agent_id=agent_id)
        row = agents.defer("state", "conversation_manager_state", "internal_state").first()
        if row is None:
            record = self.get(session.session_id)
            agent = self.open_agent(record, agent_id, dialect=transcripts.STRANDS)
        else:
            agent = AgentRecord(
                id=row.pk,
                session=session.pk,
                agent_id=agent_id,
                dialect=row.dialect,
                data=AgentState(),
                created_at=row.created_at,
                updated_at=row.updated_at,
            )
        latest = self._snapshots(agent).filter(snapshot_id=LATEST)
        revision = latest.values_list("revision", flat=True).first()
        return Head(session.pk, session.redaction_epoch, agent, revision, self.last_row(agent))

    def _save(self, head: Head, snapshot_id: str, saving: Saving) -> Head:
        agent, now = head.agent, timezone.now()
        last, revision = head.last, head.revision
        document, messages = clean(saving.document), self._cleaned_messages(saving.messages)
        check_values_size(self.using, document, messages)
        if saving.keep is not None:
            self._leave(agent, saving.keep, saving.kind)
            last = self.last_row(agent)
        for position, message in saving.updated:
            self.update_message(agent, position, message)
            last = self.last_row(agent)
        spent = Usage()
        if saving.appended:
            expected = 0 if last is None else last.position + 1
            records = self.append_many(agent, saving.appended, expected=expected, count=False)
            last = LastRow(records[-1].message_id, records[-1].id, 0)
            for message in saving.appended:
                summary = transcripts.summary(agent.dialect, message)
                spent += Usage(1, summary.input_tokens or 0, summary.output_tokens or 0)
        rows = self._snapshots(agent).filter(snapshot_id=snapshot_id)
        length = saving.length
        if last is not None and length == last.position + 1:
            tail: UUID | None = last.key
        else:
            tail = self._key_at(agent, length - 1)
        columns = {
            "branch": MAIN_BRANCH,
            "messages": messages,
            "length": length,
            "tail": tail,
            "document": document,
            "updated_at": now,
        }
        if not rows.update(revision=F("revision") + 1, **columns):
            Snapshot(
                id=new_id(),
                session_id=head.session,
                agent_id=agent.id,
                snapshot_id=snapshot_id,
                created_at=now,
                **columns,
            ).save(using=self.using, force_insert=True)
        if snapshot_id == LATEST:
            revision = 0 if revision is None else revision + 1
            if saving.state is not None:
                self.update_agent(agent, saving.state)
        if spent != Usage() or snapshot_id == LATEST:
            self.touch(head.session, spent)
        return Head(head.session, head.epoch, agent, revision, last)

    def _leave(self, agent: AgentRecord, keep: int, kind: str) -> None:
        """Sets aside what was said after a message, with the latest snapshot that refers to it."""
        made = self.set_aside(agent, keep, kind=kind)
        if made is not None:
            latest = self._snapshots(agent).filter(snapshot_id=LATEST, branch=MAIN_BRANCH)
            latest.filter(length__gt=keep + 1).update(branch=made.number)

    def _cleaned_messages(self, messages: list[Any]) -> list[Any]:
        return [
            item if isinstance(item, list) else {**item, "message": clean(item["message"])}
            for item in messages
        ]

    # --- what a plan asks ---------------------------------------------------------------------

    def last_row(self, agent: AgentRecord) -> LastRow | None:
        """Reads which message of a conversation is the last one."""
        rows = self._messages(agent).order_by("-message_id")
        found = rows.values_list("message_id", "pk", "revision").first()
        return None if found is None else LastRow(*found)

    def is_there(self, agent: AgentRecord, row: LastRow) -> bool:
        """Tells whether a message is still where it was."""
        return self._key_at(agent, row.position) == row.key

    def redacted_positions(self, agent: AgentRecord, positions: Iterable[int]) -> set[int]:
        """Tells which messages were redacted."""
        rows = self._messages(agent).filter(redacted_at__isnull=False)
        return set(rows.filter(message_id__in=list(positions)).values_list("message_id", flat=True))

    def is_kept(self, agent: AgentRecord, position: int, *, but: str) -> bool:
        """Tells whether another snapshot may refer to a message of the main branch."""
        rows = self._snapshots(agent).exclude(snapshot_id=but)
        return rows.filter(branch=MAIN_BRANCH, length__gt=position).exists()

    def stored_snapshot(self, agent: AgentRecord, snapshot_id: str) -> tuple[Any, Any]:
        """Reads a snapshot's document and references; None and None if there is none."""
        rows = self._snapshots(agent).filter(snapshot_id=snapshot_id)
        return rows.values_list("document", "messages").first() or (None, None)

    # --- reading ------------------------------------------------------------------------------

    @repeatable
    def load_snapshot(self, session_id: str, agent_id: str, snapshot_id: str) -> Loaded | None:
        """Reads a snapshot with its messages.

        Args:
            session_id: The session.
            agent_id: The agent.
            snapshot_id: The snapshot; empty for the latest.

        Returns:
            The snapshot; None if there is none, or it is not this owner's. If an agent was gone on
            with by a manager that writes message by message, the latest one is made of what there
            is.

        Raises:
            SessionConflictError: Messages that it refers to were taken away since.
        """
        rows = self._named_snapshots(session_id).filter(
            agent__agent_id=agent_id, snapshot_id=snapshot_id
        )
        for _ in range(_TRIES):
            row = rows.select_related("session", "agent").first()
            if row is None or row.agent is None:
                return None
            agent = _record(row.agent)
            if snapshot_id == LATEST and self._was_gone_on_with(agent, row):
                return self._of_log(session_id, agent_id, row.revision)
            contents, redacted, tail = self._referred(
                agent.on_branch(row.branch), row.messages, row.length
            )
            revision = row.revision if snapshot_id == LATEST else None
            if snapshot_id != LATEST:
                latest = self._snapshots(agent).filter(snapshot_id=LATEST)
                revision = latest.values_list("revision", flat=True).first()
            last = self.last_row(agent)
            seen = (row.session.redaction_epoch, row.branch, row.revision)
            now = rows.values_list("session__redaction_epoch", "branch", "revision").first()
            if now != seen:
                continue
            if row.tail in (None, tail):
                break
            if snapshot_id == LATEST:
                return self._of_log(session_id, agent_id, row.revision)
            raise SessionConflictError(
                f"messages of snapshot {snapshot_id} of agent {agent_id!r} were taken away since"
            )
        else:
            raise SessionConflictError(f"session {session_id!r} changed each time it was read")
        return Loaded(
            session=row.session_id,
            epoch=row.session.redaction_epoch,
            agent=agent.id,
            revision=revision,
            last=last,
            branch=row.branch,
            messages=row.messages,
            document=row.document,
            contents=contents,
            redacted=frozenset(redacted),
        )

    @repeatable
    def load_log(self, session_id: str, agent_id: str) -> Loaded | None:
        """Makes a latest snapshot of an agent that has none, whose messages came from elsewhere.

        Args:
            session_id: The session.
            agent_id: The agent.

        Returns:
            The snapshot; None if there is no such agent, or it is not this owner's.
        """
        return self._of_log(session_id, agent_id, None)

    def _was_gone_on_with(self, agent: AgentRecord, row: Snapshot) -> bool:
        """Tells whether a manager that writes message by message came after the latest snapshot."""
        if row.branch != MAIN_BRANCH:
            return False
        later = self._messages(agent).filter(message_id__gte=row.length, run_id__isnull=False)
        return later.exists()

    def _is_log(self, row: SessionAgent, agent: AgentRecord) -> bool:
        """Tells whether the messages of an agent without a latest snapshot came from elsewhere.

        A fork and an import say so; a manager that writes message by message names its runs.
        """
        if row.session.origin is not None:
            return True
        last = self._messages(agent).order_by("-message_id")
        return last.values_list("run_id", flat=True).first() is not None

    def _of_log(self, session_id: str, agent_id: str, revision: int | None) -> Loaded | None:
        """Makes a latest snapshot of an agent as the log of its messages has it."""
        agents = self._agents().filter(
            session__in=self._reachable().named(self.namespace, session_id),
            agent_id=agent_id,
            dialect=transcripts.STRANDS,
        )
        for _ in range(_TRIES):
            row = agents.select_related("session").first()
            if row is None:
                return None
            agent = _record(row)
            if revision is None and not self._is_log(row, agent):
                return None
            last = self.last_row(agent)
            end = 0 if last is None else last.position + 1
            data = agent_record(row).data
            if not end and not data.state and not data.conversation_manager_state:
                return None
            messages = [
                [first, min(stop, end)] for first, stop in ranges(data.window, end) if first < end
            ]
            contents, redacted, _ = self._referred(agent, messages, end)
            epochs = agents.values_list("session__redaction_epoch", flat=True)
            if epochs.first() == row.session.redaction_epoch:
                break
        else:
            raise SessionConflictError(f"session {session_id!r} changed each time it was read")
        return Loaded(
            session=row.session_id,
            epoch=row.session.redaction_epoch,
            agent=agent.id,
            revision=revision,
            last=last,
            branch=MAIN_BRANCH,
            messages=messages,
            document=document_of(data, row.updated_at),
            contents=contents,
            redacted=frozenset(redacted),
        )

    def _referred(
        self, agent: AgentRecord, messages: list[Any], length: int
    ) -> tuple[dict[int, Any], set[int], UUID | None]:
        """What the messages say, which of them were redacted, and the key of the last one."""
        spans = [item if isinstance(item, list) else _span(item) for item in messages]
        wanted = [span for span in spans if span is not None]
        if not wanted:
            return {}, set(), None
        if len(wanted) > _MOST_RANGES:
            wanted = [[min(a for a, _ in wanted), max(b for _, b in wanted)]]
        condition = Q()
        for first, stop in wanted:
            condition |= Q(message_id__gte=first, message_id__lt=stop)
        rows = self._messages(agent).filter(condition)
        columns = ("message_id", CONTENT_TEXT, "redacted_at", "pk")
        found = self._contents(agent, rows.values_list(*columns))
        contents = {row[0]: payload for row, payload in found}
        tail = next((row[3] for row, _ in reversed(found) if row[0] == length - 1), None)
        return contents, {row[0] for row, _ in found if row[2] is not None}, tail


def _record(row: SessionAgent) -> AgentRecord:
    return AgentRecord(
        id=row.pk,
        session=row.session_id,
        agent_id=row.agent_id,
        dialect=row.dialect,
        data=AgentState(),
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _span(item: Any) -> list[int] | None:
    return [item["position"], item["position"] + 1] if "position" in item else None


def _stop(item: Any) -> int:
    span = item if isinstance(item, list) else _span(item)
    return 0 if span is None else int(span[1])
