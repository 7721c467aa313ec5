"""What the session manager knows of an agent: its stored messages, and what is not yet written."""

from __future__ import annotations

import copy
import gc
import os
import threading
import weakref
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast
from uuid import UUID

from strands import Agent
from strands.types.content import Message
from strands.types.session import SessionAgent

from django_agent_sessions.values.ids import new_id
from django_agent_sessions.values.records import (
    AgentRecord,
    AgentState,
    MessageRecord,
    NewMessage,
    Usage,
)

from . import formats
from .live_redaction import RedactionLog, mask_agent
from .newer_names import LocalAgent


class StoredMessage(NamedTuple):
    """A message of an agent that is in the database.

    ``message`` is the same dict that the agent holds; ``content`` has its blocks when it was
    stored, to detect added ones. ``key`` is the primary key of the row, if this process wrote it.
    """

    position: int
    message: Message
    content: list[Any]
    pinned: bool
    key: UUID | None


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A summary of an agent's state, for comparison with the state in the database."""

    state: Any
    interrupts: Any
    conversation_manager: Any
    model: Any


@dataclass
class Conversation:
    """The conversation of an agent of the session."""

    agent: weakref.ref[LocalAgent]
    record: AgentRecord | None = None
    run_id: UUID = field(default_factory=new_id)
    # Messages whose write failed. With `unsure`, some of them may be in the database.
    pending_messages: list[NewMessage] = field(default_factory=list)
    may_be_written: bool = False
    # Usage that is not yet added to the session's counters.
    spent: Usage = field(default_factory=Usage)
    # Rows that were written in a caller's transaction, which may be rolled back. With `doubtful`,
    # another run has begun since, and must check whether they exist.
    uncommitted_ids: set[UUID] = field(default_factory=set)
    must_check_rollback: bool = False
    # The state that this process last wrote or read, and redactions in it since.
    known_state: AgentState | None = field(default=None, repr=False)
    corrections: RedactionLog = field(default_factory=RedactionLog, repr=False)
    # A bidirectional agent replaces one message while it adds another.
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)
    _stored: dict[str, StoredMessage] = field(default_factory=dict)
    _duplicates: list[StoredMessage] = field(default_factory=list)
    _latest: StoredMessage | None = None
    _written_fingerprint: Fingerprint | None = None
    _window: Any = None
    _end: int = 0

    def is_of_other_agent(self, agent: LocalAgent) -> bool:
        """Return whether this conversation belongs to another agent object that is still in use."""
        if self.agent() not in (None, agent):
            # An unreferenced agent may still wait for the garbage collector.
            gc.collect()
        return self.agent() not in (None, agent)

    @property
    def next_position(self) -> int:
        """The position after the last message that was read, or that this process wrote."""
        return max(self._end, self._latest.position + 1 if self._latest is not None else 0)

    @property
    def latest(self) -> StoredMessage | None:
        """The last message that this process stored or restored."""
        return self._latest

    def remember(self, position: int, message: Message, key: UUID | None = None) -> None:
        """Record that a message of the agent is in the database."""
        pinned = "metadata" in message and _is_pinned(message)
        stored = StoredMessage(position, message, list(message["content"]), pinned, key)
        tracking_id = message["tracking_id"]
        before = self._stored.get(tracking_id)
        if before is not None and before.position != position:
            self._duplicates.append(before)
        self._stored[tracking_id] = stored
        if self._latest is None or position >= self._latest.position:
            self._latest = stored

    def remember_written(self, records: Iterable[MessageRecord]) -> None:
        """Record the result of an append."""
        for record in records:
            self.remember(record.message_id, cast(Message, record.message), record.id)

    def forget(self, keys: Collection[UUID]) -> None:
        """Record that rows were rolled back, and perhaps the agent's state with them."""
        self._stored = {k: s for k, s in self._stored.items() if s.key not in keys}
        self._duplicates = [stored for stored in self._duplicates if stored.key not in keys]
        self._latest = max(self.all_stored(), key=lambda s: s.position, default=None)
        self._written_fingerprint = None

    def find_extended(self, message: Message) -> StoredMessage | None:
        """Return the stored message that this one extends.

        Strands merges the input that continues a turn into the last message, and reports the merged
        message as added. It has the tracking id of the message that it replaces.
        """
        stored = self._stored.get(message["tracking_id"])
        if stored is None or stored.message is message:
            return None
        same_start = message["content"][: len(stored.content)] == stored.content
        agent = self.agent()
        is_in_agent = agent is not None and any(m is stored.message for m in agent.messages)
        return stored if same_start and not is_in_agent else None

    def rewrite_unwritten(self, message: Message) -> None:
        """Replace a message that is not yet written."""
        self.pending_messages = [
            NewMessage(message, id=new.id)
            if new.payload["tracking_id"] == message["tracking_id"]
            else new
            for new in self.pending_messages
        ]

    def has_changes(self, agent: LocalAgent) -> bool:
        """Return whether the agent has anything that is not in the database."""
        return bool(
            self.pending_messages
            or self.spent != Usage()
            or self.state_to_write(agent) is not None
            or self.find_repinned(agent)
        )

    def find_repinned(self, agent: LocalAgent) -> list[StoredMessage]:
        """Return the stored messages whose pin has changed since they were stored.

        Strands marks a pinned message in its metadata, in place and without an event. If the mark
        were not stored, a later process would drop the message with the others.
        """
        changed = []
        for message in agent.messages:
            stored = self._stored.get(message.get("tracking_id", ""))
            if stored and stored.message is message and stored.pinned != _is_pinned(message):
                changed.append(stored)
        return changed

    def find(self, tracking_id: str) -> StoredMessage | None:
        """Return a stored message by its tracking id."""
        return self._stored.get(tracking_id)

    def find_same(self, message: Message) -> Iterator[StoredMessage]:
        """Iterate over the stored messages that are this same dict, as after a retried prompt."""
        for stored in [*self._stored.values(), *self._duplicates]:
            if stored.message is message:
                yield stored

    def all_stored(self) -> Iterator[StoredMessage]:
        """Iterate over all messages that this process stored or restored."""
        yield from self._stored.values()
        yield from self._duplicates

    def mark_synced(self, fingerprint: Fingerprint, state: AgentState) -> None:
        """Record that the agent's state, with this fingerprint, is in the database."""
        self._written_fingerprint = fingerprint
        self.known_state = state

    def state_to_write(self, agent: LocalAgent) -> tuple[AgentState, Fingerprint] | None:
        """Return the state to write and its fingerprint; None if the state is in the database."""
        current = fingerprint(agent)
        if current == self._written_fingerprint:
            return None
        if self.corrections.secrets:
            # A model that was responding at the time of the redaction may have summarized it.
            mask_agent(agent, self.corrections.secrets)
            current = fingerprint(agent)
        synced = self._written_fingerprint
        if synced is None or current.conversation_manager != synced.conversation_manager:
            self._move_window(agent)
        state = formats.agent_state(SessionAgent.from_agent(agent), window=self._window)
        return self.corrections.apply(state), current

    def set_window(self, window: Any, end: int) -> None:
        """Set the window of an earlier process, and the position after its last message."""
        self._window = window
        self._end = end

    def _move_window(self, agent: LocalAgent) -> None:
        """Compute which of the stored messages the agent still holds.

        A conversation manager does not always remove the oldest messages: pinned ones stay. And
        another process may have appended messages that this agent never held. So the window lists
        the kept messages before ``tail``, and includes all messages from ``tail`` on.
        """
        held = {message.get("tracking_id") for message in agent.messages}
        removed = [s.position for s in self.all_stored() if s.message["tracking_id"] not in held]
        tail = max(removed, default=-1) + 1
        kept: set[int] = set()
        if self._window is not None:
            tail = max(tail, self._window["tail"])
            kept.update(p for p in self._window["kept"] if p not in removed)
        if tail == 0:
            return
        # Messages that the agent dropped are no longer needed, and may be large.
        self._stored = {k: stored for k, stored in self._stored.items() if k in held}
        self._duplicates = [s for s in self._duplicates if s.message["tracking_id"] in held]
        kept.update(stored.position for stored in self.all_stored() if stored.position < tail)
        self._window = {"kept": sorted(kept), "tail": tail}


def with_tracking_id(message: Message) -> Message:
    """Set a message's tracking id, as Strands would before the next model call, and return it."""
    add_tracking_ids([message])
    return message


def add_tracking_ids(messages: Iterable[Message]) -> None:
    """Set the tracking id of each message that has none.

    A conversation of another tool has no ids, and generating a random id for each message takes
    longer than reading it: the first is random, like ``str(uuid4())``, and the others count up from
    it.
    """
    untracked = [message for message in messages if not message.get("tracking_id")]
    if not untracked:
        return
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    start = f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}"
    for number, message in enumerate(untracked, int(digits[20:], 16)):
        message["tracking_id"] = f"{start}-{number % 2**48:012x}"


def _is_pinned(message: Message) -> bool:
    custom = (message.get("metadata") or {}).get("custom") or {}
    return custom.get("pinned") is True


def fingerprint(agent: LocalAgent) -> Fingerprint:
    """Return a value that changes whenever the agent's state may have changed."""
    if not isinstance(agent, Agent):
        return Fingerprint(_version(agent.state), None, None, None)
    return Fingerprint(
        state=_version(agent.state),
        interrupts=_version(agent._interrupt_state),
        conversation_manager=copy.deepcopy(agent.conversation_manager.get_state()),
        model=copy.deepcopy(agent._model_state),
    )


def _version(counted: Any) -> tuple[weakref.ref[Any], int]:
    # Strands counts the changes of a state. A program may replace the state object by another one,
    # which counts from 0 again and may even have the same id() as a deleted one.
    return weakref.ref(counted), counted._get_version()
