"""The conversation of an object whose SDK reads and writes one list of messages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeVar
from uuid import UUID

from django.db import transaction

from django_agent_sessions.content import dialects, masking
from django_agent_sessions.exceptions import (
    SessionConflictError,
    SessionNotFoundError,
    StaleSessionError,
)
from django_agent_sessions.models.session_names import by_key
from django_agent_sessions.store import DEFAULT_AGENT, AppendSteps, SessionStore, run_steps
from django_agent_sessions.values.ids import SessionKey, validate_id
from django_agent_sessions.values.records import (
    AgentRecord,
    Append,
    MessageRecord,
    PositionedPayload,
    SessionRecord,
    Usage,
)
from django_agent_sessions.values.run_context import current_run

from .adapter_session import MAX_RELOADS, AdapterSession, RollbackLog, check_dialect
from .exclusive import ExclusiveRuns
from .prepared_batch import PreparedBatch

R = TypeVar("R")

MAIN_AGENT = DEFAULT_AGENT
"""The id of the agent of a session that has one conversation."""

_MAX_PAGES = 3


@dataclass
class ConversationState:
    """What an object knows of its conversation, and takes back after a rollback."""

    epoch: int | None = None
    """The redaction epoch that a write sends. One that is too old is safe: the write reloads."""

    ancestors: list[UUID] | None = field(default_factory=list)
    """The sessions of which its session is a fork; None before a fork's first append."""

    found: tuple[Any, AgentRecord] | None = None
    """The session id and owner with which the agent was found, and the agent."""

    no_originals: tuple[UUID, int] | None = None
    """The session and the epoch at which no redacted message could be recognized again."""

    messages: dict[tuple[int, int], Any] = field(default_factory=dict)
    """By branch and position."""

    pages: list[tuple[int, Collection[PositionedPayload]]] = field(default_factory=list)
    """What was read, by branch, and is not yet entered in ``messages``."""

    secrets: set[str] = field(default_factory=set)
    replacements: list[tuple[Any, Any]] = field(default_factory=list)
    """Texts and messages that were redacted, the latter with their redacted versions."""

    def copy(self) -> ConversationState:
        """Return a copy that changes by itself."""
        return replace(
            self,
            messages=dict(self.messages),
            pages=list(self.pages),
            secrets=set(self.secrets),
            replacements=list(self.replacements),
        )


class ConversationMemory:
    """What an object knows of its conversation: the agent's row, and the messages in memory.

    The SDK has read or written these messages, and they may have been redacted since. It changes
    only when the database has acknowledged a read or a write. After a rollback it is again what it
    was before the transaction.
    """

    def __init__(self) -> None:
        self._rollbacks: RollbackLog[ConversationState] = RollbackLog()
        self.state = ConversationState()
        self.model = ""
        """The name of the model that answers, if the caller told it."""

    def forget(self, epoch: int | None = None, *, is_fork: bool = False) -> None:
        """Forget all messages, because the conversation is a new one."""
        self.state = ConversationState(epoch, None if is_fork else [])

    def track(self, using: str) -> None:
        """Take back what was recorded in a transaction that was rolled back; track this one."""
        before = self._rollbacks.track(using, lambda: self.state.copy())
        if before is not None:
            self.state = before.copy()

    def record_read(self, read: Collection[PositionedPayload], *, branch: int = 0) -> None:
        """Record messages that were read, and redactions since they were known."""
        for placed in read:
            if placed.redacted:
                self._record_redaction(placed, branch)
        # Entered only when it is needed, which is rare.
        self.state.pages.append((branch, read))
        if len(self.state.pages) > _MAX_PAGES:
            self._by_position()

    def record_moved(
        self,
        aside: Collection[PositionedPayload],
        found: Collection[PositionedPayload],
        *,
        branch: int = 0,
    ) -> None:
        """Record redactions of messages that were moved to another branch.

        A rewind keeps the positions of the messages that it moves. If several branches have a
        redacted message at a position, each of them may be the known one.
        """
        current = {placed.position: placed.payload for placed in found}
        for placed in aside:
            known = self._by_position().get((branch, placed.position))
            if known is not None and known != current.get(placed.position):
                self._record_redaction(placed, branch)

    def record_written(self, written: Iterable[MessageRecord], *, branch: int = 0) -> None:
        """Record messages that were written."""
        self._by_position().update(
            ((branch, record.message_id), record.message) for record in written
        )

    def record_popped(self, taken: PositionedPayload | None, *, branch: int = 0) -> None:
        """Record a message that was removed, perhaps redacted, and that may be written back."""
        if taken is not None:
            self._record_redaction(taken, branch)
            self._by_position().pop((branch, taken.position), None)

    def clean(self, message: Any) -> Any:
        """Return a message without the texts that are known to be redacted."""
        for before, after in self.state.replacements:
            if message == before:
                return after
        secrets = self.state.secrets
        return masking.mask_texts(message, secrets, free=False) if secrets else message

    def _by_position(self) -> dict[tuple[int, int], Any]:
        messages, pages = self.state.messages, self.state.pages
        for branch, page in pages:
            messages.update({(branch, placed.position): placed.payload for placed in page})
        pages.clear()
        return messages

    def _record_redaction(self, placed: PositionedPayload, branch: int) -> None:
        known = self._by_position().get((branch, placed.position), placed.payload)
        # The position may have another message now: only the row's flag proves a redaction.
        if placed.redacted and known is not placed.payload and known != placed.payload:
            self.state.replacements.append((known, placed.payload))
            masked = masking.masked_texts(known, placed.payload)
            self.state.secrets |= masking.searchable_texts(masked)


class ConversationSession(AdapterSession):
    """One agent's conversation in a session.

    The first message creates the rows. An object may make one for each operation, as for an owner
    who is known only then: ``memory`` and ``runs`` are what the object keeps between them.
    """

    memory_class: type[ConversationMemory] = ConversationMemory

    def __init__(
        self,
        store: SessionStore,
        session_id: str | UUID,
        dialect: str,
        *,
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
        runs: ExclusiveRuns | None = None,
        memory: ConversationMemory | None = None,
        agent_id: str | UUID = MAIN_AGENT,
    ) -> None:
        super().__init__(store, session_id, dialect, title=title, metadata=metadata, runs=runs)
        self.agent_id = validate_id(agent_id, "agent_id")
        self.memory = self.memory_class() if memory is None else memory

    def take_back(self) -> None:
        self.memory.track(self.using)

    # --- operations, called in a database thread ---------------------------------------------

    def read(self, latest: int | None = None) -> list[Any]:
        """Return the messages, or the latest ones, oldest first."""
        return self.on_conversation(partial(self.read_from, latest)) or []

    def read_from(self, latest: int | None, agent: AgentRecord) -> list[Any] | None:
        """Read the branch of an agent record; None if it is empty."""
        return [placed.payload for placed in self.read_positioned(latest, agent)] or None

    def read_positioned(self, latest: int | None, agent: AgentRecord) -> list[PositionedPayload]:
        """Read the branch of an agent record with the positions of its messages."""
        found = self.store.messages.positioned(agent, latest=latest)
        self.memory.record_read(found, branch=agent.branch)
        return found

    def append(
        self,
        batch: Sequence[Any],
        run_id: UUID | None = None,
        spent: tuple[int, Usage] | None = None,
    ) -> list[Any]:
        """Append messages, all of them or none.

        Returns them as the SDK may keep them: texts that are known to be redacted are masked.
        ``spent`` is the usage of a model's call and the index of the message that it wrote, for
        formats whose messages do not report it.
        """
        steps = self.append_prepared(self.prepare(batch, spent), run_id)
        return run_steps(self.using, steps)

    async def aappend(
        self,
        batch: Sequence[Any],
        run_id: UUID | None = None,
        spent: tuple[int, Usage] | None = None,
    ) -> list[Any]:
        """Async version of :meth:`append`, which runs in a database thread."""
        steps = self.append_prepared(self.prepare(batch, spent), run_id)
        return await self.arun_steps(steps, self.memory)

    def prepare(
        self, batch: Sequence[Any], spent: tuple[int, Usage] | None = None
    ) -> PreparedBatch:
        """Return messages with the client's id of the user's message that the run answers.

        That message is left out if it is stored already.
        """
        key = current_run().question
        if key is None:
            return PreparedBatch(batch, spent)
        session = SessionKey(self.store.namespace, self.store.scope, self.session_id)
        dialect = dialects.get(self.dialect)
        for index, message in enumerate(batch):
            if (text := dialect.question(message)) is None:
                continue
            external_id, is_stored = key.take(session, text)
            if is_stored:
                left = [*batch[:index], *batch[index + 1 :]]
                if spent is not None and spent[0] > index:
                    spent = (spent[0] - 1, spent[1])
                return PreparedBatch(left, spent)
            return PreparedBatch(batch, spent, (index, external_id) if external_id else None)
        return PreparedBatch(batch, spent)

    def append_prepared(self, batch: PreparedBatch, run_id: UUID | None) -> AppendSteps[list[Any]]:
        """Append what :meth:`prepare` returned."""
        if not batch.messages:
            return []
        return (yield from self.write(partial(self.append_to, batch, run_id), batch, run_id))

    def append_to(
        self, batch: PreparedBatch, run_id: UUID | None, agent: AgentRecord
    ) -> AppendSteps[list[Any]]:
        """Append messages to the branch of an agent record; see :meth:`append`."""
        reloads_left = MAX_RELOADS
        while True:
            clean = self.clean_batch(agent, batch)
            try:
                written = yield Append(agent, clean, run_id, epoch=self.memory.state.epoch)
                return self.record_appended(written)
            except StaleSessionError:
                if not reloads_left:
                    raise
            reloads_left -= 1
            self.reload(agent)

    def record_appended(self, written: Sequence[MessageRecord]) -> list[Any]:
        """Record messages that were appended; return them as the SDK may keep them."""
        self.memory.record_written(written)
        return [record.message for record in written]

    def clean_batch(self, agent: AgentRecord, batch: PreparedBatch) -> list[Any]:
        """Return messages as they are written; see :meth:`append`."""
        clean = [self.memory.clean(message) for message in batch.messages]
        return batch.describe(self._without_originals(agent, clean), self.memory.model)

    def _without_originals(self, agent: AgentRecord, messages: list[Any]) -> list[Any]:
        """Replace originals of redacted messages, which the object has not read itself."""
        state = self.memory.state
        if state.ancestors is None:
            state.ancestors = self.store.sessions.ancestors(by_key(agent.session))
        # A redaction in an ancestor does not change the epoch of its forks.
        at = None if state.ancestors or not state.epoch else (agent.session, state.epoch)
        if not state.ancestors and at in (None, state.no_originals):
            return messages
        stored = self.store.messages
        if stored.has_originals(agent, ancestors=state.ancestors):
            return stored.without_originals(agent, messages, ancestors=state.ancestors)
        state.no_originals = at
        return messages

    def mask(self, messages: Sequence[Any]) -> list[Any]:
        """Return messages without what was redacted since the object read or wrote them."""

        def mask(agent: AgentRecord) -> list[Any] | None:
            branch = self.branch_of(agent)
            session = self.store.find(self.session_id)
            if branch is None or session is None:
                return None
            if session.redaction_epoch != self.memory.state.epoch:
                self.reload(branch)
            return [self.memory.clean(message) for message in messages] or None

        return self.on_conversation(mask) or list(messages)

    def pop(self) -> Any:
        """Remove the latest message and return it; None if there is none."""

        def pop(agent: AgentRecord) -> Any:
            taken = self.store.messages.pop(agent)
            self.memory.record_popped(taken)
            return None if taken is None else taken.payload

        return self.on_conversation(pop)

    def clear(self) -> None:
        """Delete all messages."""
        self.on_conversation(lambda agent: self.clear_all(agent) or None)

    def clear_all(self, agent: AgentRecord) -> int:
        """Delete all messages of an agent, and return their number."""
        # Redactions must be read before the deletion: a compaction writes messages back.
        return self.reload_if_stale(
            lambda: self.store.clear(agent, epoch=self.memory.state.epoch),
            partial(self.reload, agent),
        )

    def replace_history(self, kept: Sequence[Any], summary: Any = None) -> list[Any]:
        """Replace all messages with a summary and the messages that were kept: all or nothing.

        Returns the messages as :meth:`append` does.
        """
        messages = PreparedBatch([*([] if summary is None else [summary]), *kept])

        def replace(agent: AgentRecord) -> AppendSteps[list[Any]]:
            yield None
            with transaction.atomic(using=self.using):
                self.memory.track(self.using)
                self.clear_all(agent)
                return run_steps(self.using, self.append_to(messages, None, agent))

        return run_steps(self.using, self.write(replace, messages))

    def redact(
        self,
        position: int,
        make: Callable[[MessageRecord], Any],
        *,
        actor: Any = "",
        reason: str = "",
    ) -> None:
        """Replace the message at an index: 0 is the first, -1 the latest.

        ``make`` returns its redacted version. Raises ``SessionNotFoundError`` if there is none.
        """
        agent = self.find()
        branch = None if agent is None else self.branch_of(agent)
        record = None if branch is None else self._message_at(position, branch)
        if branch is None or record is None:
            raise SessionNotFoundError(f"session {self.session_id!r} has no item {position}")
        # With its key, so that copies on other branches are redacted as well.
        self.store.messages.redact(
            branch, record.message_id, make(record), key=record.id, actor=actor, reason=reason
        )

    def branch_of(self, agent: AgentRecord) -> AgentRecord | None:
        """Return the record of the branch that the object uses."""
        return agent

    def _message_at(self, position: int, agent: AgentRecord) -> MessageRecord | None:
        # By its index and not by its message_id, which may have gaps after concurrent removals.
        forwards = position >= 0
        count = position + 1 if forwards else -position
        store = self.store
        records = (
            store.messages.list(agent, limit=count)
            if forwards
            else store.messages.latest(agent, count)
        )
        # Fewer if the conversation is shorter or one is corrupt, so that the index is unknown.
        return records[-1 if forwards else 0] if len(records) == count else None

    def count(self, usage: Usage) -> None:
        """Add the usage of a run that ended."""
        self.on_conversation(lambda agent: self.after_run(agent.session, usage))

    # --- the agent's row ---------------------------------------------------------------------

    def write(
        self,
        append_to: Callable[[AgentRecord], AppendSteps[list[Any]]],
        batch: PreparedBatch,
        run_id: UUID | None = None,
    ) -> AppendSteps[list[Any]]:
        """Write to the conversation; if it does not exist, create it with the batch.

        Returns what ``append_to`` does: the messages as :meth:`append` returns them.
        """
        known = self.recall()
        if known is not None:
            try:
                return (yield from append_to(known))
            except SessionNotFoundError:
                # It was deleted, or created in a transaction that was rolled back: open it again.
                self.memory.state.found = None
        yield None
        agent = self.find()
        if agent is not None:
            return (yield from append_to(agent))
        with suppress(SessionConflictError):
            return self._start(batch, run_id)
        # It exists without the agent, or another process creates it.
        session = self.open()
        agent = self.store.agents.open(session, self.agent_id, dialect=self.dialect)
        return (yield from append_to(self._remember(agent, session)))

    def _start(self, batch: PreparedBatch, run_id: UUID | None) -> list[Any]:
        """Create the conversation with its first messages."""
        session, agent, written = self.store.sessions.start(
            self.session_id,
            self.agent_id,
            batch.describe(batch.messages, self.memory.model),
            dialect=self.dialect,
            title=self._title,
            metadata=self._metadata,
            run_id=run_id,
        )
        self._remember(agent, session)
        return self.record_appended(written)

    def on_conversation(self, operate: Callable[[AgentRecord], R | None]) -> R | None:
        """Run an operation on the conversation; None if there is no conversation or result."""
        known = self.recall()
        if known is not None and (outcome := operate(known)) is not None:
            return outcome
        # Empty, or deleted meanwhile and perhaps created again by another process.
        found = self.find()
        if found is None or (known is not None and found.id == known.id):
            return None
        return operate(found)

    def find(self) -> AgentRecord | None:
        """Find the agent; raise ``SessionNotFoundError`` if the session has another owner."""
        # An object that knows its conversation has told what of the metadata is not stored.
        metadata = self._metadata if self.memory.state.found is None else None
        found = self.store.sessions.find_with_agent(
            self.session_id, self.agent_id, metadata=metadata
        )
        if found is None:
            self.memory.state.found = None
            return None
        session, agent = found
        return self._remember(agent, session)

    def reload(self, agent: AgentRecord) -> None:
        """Read redactions since the last read, and the redaction epoch."""
        epoch = self.store.get(self.session_id).redaction_epoch
        aside = [
            PositionedPayload(record.message_id, record.content, True)
            for record in self.store.messages.redacted_elsewhere(agent)
        ]
        found = self.store.messages.positioned(agent)
        self.memory.record_moved(aside, found, branch=agent.branch)
        self.memory.record_read(found, branch=agent.branch)
        self.memory.state.epoch = epoch

    def recall(self) -> AgentRecord | None:
        """Return the agent that the object has used, without asking the database."""
        found = self.memory.state.found
        return found[1] if found is not None and found[0] == self._key else None

    def _remember(self, agent: AgentRecord, session: SessionRecord) -> AgentRecord:
        check_dialect(agent, self.dialect)
        if self.memory.state.found is None or self.memory.state.found[1].id != agent.id:
            # A new conversation. For the same one keep the older epoch, which is the safe choice.
            is_fork = session.forked_from is not None
            self.memory.forget(session.redaction_epoch, is_fork=is_fork)
        self.memory.state.found = (self._key, agent)
        return agent

    @cached_property
    def _key(self) -> Any:
        return self.session_id, self.agent_id, self.store.reach.key
