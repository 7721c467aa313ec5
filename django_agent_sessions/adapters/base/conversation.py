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
    NewMessage,
    PositionedPayload,
    SessionRecord,
    Usage,
)
from django_agent_sessions.values.run_context import current_run

from .adapter_session import MAX_RELOADS, AdapterSession, Known, Memory, check_dialect
from .exclusive import ExclusiveRuns

R = TypeVar("R")

MAIN_AGENT = DEFAULT_AGENT
"""The id of the agent of a session that has one conversation."""

_MAX_PAGES, _MAX_WAITING = 100, 1_000


@dataclass(frozen=True)
class KnownConversation(Known):
    """What an object knows of its conversation."""

    ancestors: Collection[UUID] | None = ()
    """The sessions of which its session is a fork; None before a fork's first append."""

    found: tuple[Any, AgentRecord] | None = None
    """The session id and owner with which the agent was found, and the agent."""

    no_originals: tuple[UUID, int] | None = None
    """The session and the epoch at which no redacted message could be recognized again."""

    messages: Mapping[tuple[int, int], Any] = field(default_factory=dict)
    """By branch and position."""

    pages: tuple[tuple[int, Collection[PositionedPayload]], ...] = ()
    """What was read or written, by branch, and is not yet entered in ``messages``."""

    waiting: int = 0
    """The number of messages in ``pages``."""

    secrets: frozenset[str] = frozenset()
    replacements: tuple[tuple[Any, Any], ...] = ()
    """Texts and messages that were redacted, the latter with their redacted versions."""


class ConversationMemory(Memory[KnownConversation]):
    """What an object knows of its conversation: the agent's row, and the messages in memory.

    The SDK has read or written these messages, and they may have been redacted since. It changes
    only when the database has acknowledged a read or a write.
    """

    known_class: type[KnownConversation] = KnownConversation

    def __init__(self) -> None:
        super().__init__(self.known_class())
        self.model = ""
        """The name of the model that answers, if the caller told it."""

    def forget(self, epoch: int | None = None, *, is_fork: bool = False) -> None:
        """Forget all messages, because the conversation is a new one."""
        self.known = self.known_class(epoch, ancestors=None if is_fork else ())

    def record_read(self, read: Collection[PositionedPayload], *, branch: int = 0) -> None:
        """Record messages that were read, and redactions since they were known."""
        for placed in read:
            if placed.redacted:
                self._record_redaction(placed, branch)
        self._add_page(read, branch)

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
        page = [PositionedPayload(record.message_id, record.message, False) for record in written]
        self._add_page(page, branch)

    def record_popped(self, taken: PositionedPayload | None, *, branch: int = 0) -> None:
        """Record a message that was removed, perhaps redacted, and that may be written back."""
        if taken is not None:
            self._record_redaction(taken, branch)
            messages = dict(self._by_position())
            messages.pop((branch, taken.position), None)
            self.change(messages=messages)

    def clean(self, message: Any) -> Any:
        """Return a message without the texts that are known to be redacted."""
        for before, after in self.known.replacements:
            if message == before:
                return after
        secrets = self.known.secrets
        return masking.mask_texts(message, secrets, free=False) if secrets else message

    def _add_page(self, page: Collection[PositionedPayload], branch: int) -> None:
        # Entered only when it is needed, which is rare, or when there are many.
        pages = (*self.known.pages, (branch, page))
        waiting = self.known.waiting + len(page)
        self.known = replace(self.known, pages=pages, waiting=waiting)
        if len(pages) > _MAX_PAGES or waiting > _MAX_WAITING + len(self.known.messages):
            self._by_position()

    def _by_position(self) -> Mapping[tuple[int, int], Any]:
        if self.known.pages:
            messages = dict(self.known.messages)
            for branch, page in self.known.pages:
                for placed in page:
                    messages[branch, placed.position] = placed.payload
            self.change(messages=messages, pages=(), waiting=0)
        return self.known.messages

    def _record_redaction(self, placed: PositionedPayload, branch: int) -> None:
        known = self._by_position().get((branch, placed.position), placed.payload)
        # The position may have another message now: only the row's flag proves a redaction.
        if placed.redacted and known is not placed.payload and known != placed.payload:
            masked = masking.masked_texts(known, placed.payload)
            self.change(
                replacements=(*self.known.replacements, (known, placed.payload)),
                secrets=self.known.secrets | masking.searchable_texts(masked),
            )


class ConversationSession(AdapterSession):
    """One agent's conversation in a session.

    The first message creates the rows. An object may make one for each operation, as for an owner
    who is known only then: ``memory`` and ``runs`` are what the object keeps between them.
    """

    memory_class: type[ConversationMemory] = ConversationMemory
    memory: ConversationMemory

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
        super().__init__(
            store,
            session_id,
            dialect,
            title=title,
            metadata=metadata,
            runs=runs,
            memory=self.memory_class() if memory is None else memory,
        )
        self.agent_id = validate_id(agent_id, "agent_id")

    # --- operations, called in a database thread; `aappend` and `prepare` also in a loop -------

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
    ) -> list[NewMessage]:
        """Return messages with what is recorded with them.

        That is the usage that ``spent`` has, and the client's id of the user's message that the run
        answers. That message is left out if it is stored already.
        """
        key, stored = current_run().question, None
        external_ids: dict[int, str | None] = {}
        if key is not None:
            session = SessionKey(self.store.namespace, self.store.scope, self.session_id)
            question = dialects.get(self.dialect).question
            texts = ((index, question(message)) for index, message in enumerate(batch))
            for index, text in texts:
                if text is not None:
                    external_ids[index], is_stored = key.take(session, text)
                    stored = index if is_stored else None
                    break
        writer, usage = (None, None) if spent is None else spent
        # Their keys have the order of the messages.
        return [
            NewMessage(
                message,
                usage=usage if index == writer else None,
                model=self.memory.model if index == writer else "",
                external_id=external_ids.get(index),
            )
            for index, message in enumerate(batch)
            if index != stored
        ]

    def append_prepared(
        self, batch: Sequence[NewMessage], run_id: UUID | None
    ) -> AppendSteps[list[Any]]:
        """Append what :meth:`prepare` returned; the steps begin in a database thread."""
        if not batch:
            return []
        return (yield from self.write(partial(self.append_to, batch, run_id), batch, run_id))

    def append_to(
        self, batch: Sequence[NewMessage], run_id: UUID | None, agent: AgentRecord
    ) -> AppendSteps[list[Any]]:
        """Append messages to the branch of an agent record; see :meth:`append`."""
        reloads_left = MAX_RELOADS
        while True:
            clean = self.clean_batch(agent, batch)
            try:
                written = yield Append(agent, clean, run_id, epoch=self.memory.known.epoch)
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

    def clean_batch(self, agent: AgentRecord, batch: Sequence[NewMessage]) -> list[NewMessage]:
        """Return messages as they are written; see :meth:`append`."""
        payloads = [self.memory.clean(new.payload) for new in batch]
        return [
            new if payload is new.payload else replace(new, payload=payload)
            for new, payload in zip(batch, self._without_originals(agent, payloads), strict=True)
        ]

    def _without_originals(self, agent: AgentRecord, messages: list[Any]) -> list[Any]:
        """Replace originals of redacted messages, which the object has not read itself."""
        known = self.memory.known
        ancestors = known.ancestors
        if ancestors is None:
            ancestors = self.store.sessions.ancestors(by_key(agent.session))
            self.memory.change(ancestors=ancestors)
        # A redaction in an ancestor does not change the epoch of its forks.
        at = None if ancestors or not known.epoch else (agent.session, known.epoch)
        if not ancestors and at in (None, known.no_originals):
            return messages
        stored = self.store.messages
        if stored.has_originals(agent, ancestors=ancestors):
            return stored.without_originals(agent, messages, ancestors=ancestors)
        self.memory.change(no_originals=at)
        return messages

    def mask(self, messages: Sequence[Any]) -> list[Any]:
        """Return messages without what was redacted since the object read or wrote them."""

        def mask(agent: AgentRecord) -> list[Any] | None:
            branch = self.branch_of(agent)
            session = self.store.find(self.session_id)
            if branch is None or session is None:
                return None
            if session.redaction_epoch != self.memory.known.epoch:
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
            lambda: self.store.clear(agent, epoch=self.memory.known.epoch),
            partial(self.reload, agent),
        )

    def replace_history(self, kept: Sequence[Any], summary: Any = None) -> list[Any]:
        """Replace all messages with a summary and the messages that were kept: all or nothing.

        Returns the messages as :meth:`append` does.
        """
        payloads = [*([] if summary is None else [summary]), *kept]
        messages = [NewMessage(payload) for payload in payloads]

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
        batch: Sequence[NewMessage],
        run_id: UUID | None = None,
    ) -> AppendSteps[list[Any]]:
        """Write to the conversation; if it does not exist, create it with ``batch``.

        Returns what ``append_to`` does: the messages as :meth:`append` returns them.
        """
        known = self.recall()
        if known is not None:
            try:
                return (yield from append_to(known))
            except SessionNotFoundError:
                # It was deleted, or created in a transaction that was rolled back: open it again.
                self.memory.change(found=None)
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

    def _start(self, batch: Sequence[NewMessage], run_id: UUID | None) -> list[Any]:
        """Create the conversation with its first messages."""
        session, agent, written = self.store.sessions.start(
            self.session_id,
            self.agent_id,
            batch,
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
        metadata = self._metadata if self.memory.known.found is None else None
        found = self.store.sessions.find_with_agent(
            self.session_id, self.agent_id, metadata=metadata
        )
        if found is None:
            self.memory.change(found=None)
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
        self.memory.change(epoch=epoch)

    def recall(self) -> AgentRecord | None:
        """Return the agent that the object has used, without asking the database."""
        found = self.memory.known.found
        return found[1] if found is not None and found[0] == self._key else None

    def _remember(self, agent: AgentRecord, session: SessionRecord) -> AgentRecord:
        check_dialect(agent, self.dialect)
        if self.memory.known.found is None or self.memory.known.found[1].id != agent.id:
            # A new conversation. For the same one keep the older epoch, which is the safe choice.
            is_fork = session.forked_from is not None
            self.memory.forget(session.redaction_epoch, is_fork=is_fork)
        self.memory.change(found=(self._key, agent))
        return agent

    @cached_property
    def _key(self) -> Any:
        return self.session_id, self.agent_id, self.store.reach.key
