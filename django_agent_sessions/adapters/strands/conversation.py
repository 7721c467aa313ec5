"""What the session manager knows of an agent: its stored messages, and what is not yet written."""

from __future__ import annotations

import copy
import gc
import os
import weakref
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
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
from .conversation_lock import ConversationLock
from .held_messages import HeldMessage, copy_of, is_pinned, match_rows
from .live_redaction import RedactionLog, mask_agent
from .newer_names import LocalAgent
from .window import window_of


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A summary of an agent's state, for comparison with the state in the database."""

    state: Any
    interrupts: Any
    conversation_manager: Any
    model: Any


class NewState(NamedTuple):
    """A state to write, with what tells that it is written."""

    state: AgentState
    fingerprint: Fingerprint
    window: Any


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
    lock: ConversationLock = field(default_factory=ConversationLock, repr=False)
    _stored: dict[str, HeldMessage] = field(default_factory=dict)
    _duplicates: list[HeldMessage] = field(default_factory=list)
    _latest: HeldMessage | None = None
    _written_fingerprint: Fingerprint | None = None
    # As it was last written or read; `corrections` may have changed what was written.
    _window: Any = None
    _end: int = 0
    # The tracking ids of held messages that must not be stored with the window: they were refused,
    # or stand in for missing tool results, which other processes may still write.
    not_stored: set[str] = field(default_factory=set)
    # The messages of the agent that are written in another form, by their tracking ids.
    _replaced: dict[str, Message] = field(default_factory=dict, repr=False)

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
    def latest(self) -> HeldMessage | None:
        """The last message that this process stored or restored."""
        return self._latest

    def remember(self, position: int, message: Message, key: UUID | None = None) -> None:
        """Record that a message of the agent is in the database as it is now."""
        self.remember_as([HeldMessage(position, message, copy_of(message), key)])

    def remember_as(self, messages: Sequence[HeldMessage]) -> None:
        """Record that messages of the agent are in the database, perhaps in another form."""
        for stored in messages:
            tracking_id = stored.message["tracking_id"]
            before = self._stored.get(tracking_id)
            if before is not None and before.position != stored.position:
                self._duplicates.append(before)
            self._stored[tracking_id] = stored
        known = () if self._latest is None else (self._latest,)
        # Of several at one position, the one that was recorded last.
        newest_first = [*reversed(messages), *known]
        self._latest = max(newest_first, key=attrgetter("position"), default=None)

    def remember_written(self, records: Iterable[MessageRecord]) -> None:
        """Record the result of an append."""
        for record in records:
            message = cast(Message, record.message)
            # The row takes the place of the agent's message after a restore.
            held = self._replaced.pop(message.get("tracking_id", ""), message)
            self.remember(record.message_id, held, record.id)

    def as_written(self, message: Message, agent: LocalAgent) -> Message:
        """Return a message as it is written: an override may give it another form.

        It has the tracking id of the agent's own message, which is not stored.
        """
        if not agent.messages or any(held is message for held in agent.messages):
            return message
        latest = with_tracking_id(agent.messages[-1])
        tracking_id = latest["tracking_id"]
        if message.get("tracking_id", tracking_id) != tracking_id or self._is_known(tracking_id):
            return message
        self._replaced[tracking_id] = latest
        return cast(Message, {**message, "tracking_id": tracking_id})

    def withhold(self, message: Message) -> None:
        """Do not store a message of the agent that an override did not write."""
        tracking_id = with_tracking_id(message)["tracking_id"]
        if not self._is_known(tracking_id):
            self.not_stored.add(tracking_id)

    def _is_known(self, tracking_id: str) -> bool:
        return tracking_id in self._stored or any(
            new.payload["tracking_id"] == tracking_id for new in self.pending_messages
        )

    def forget(self, keys: Collection[UUID]) -> None:
        """Record that rows were rolled back, and perhaps the agent's state with them."""
        self.not_stored |= {s.message["tracking_id"] for s in self.all_stored() if s.key in keys}
        self._stored = {k: s for k, s in self._stored.items() if s.key not in keys}
        self._duplicates = [stored for stored in self._duplicates if stored.key not in keys]
        self._latest = max(self.all_stored(), key=lambda s: s.position, default=None)
        self._written_fingerprint = None

    def find_extended(self, message: Message) -> HeldMessage | None:
        """Return the stored message that this one extends.

        Strands merges the input that continues a turn into the last message, and reports the merged
        message as added. It has the tracking id of the message that it replaces.
        """
        stored = self._stored.get(message["tracking_id"])
        if stored is None or stored.message is message:
            return None
        before = stored.message["content"]
        same_start = message["content"][: len(before)] == before
        agent = self.agent()
        is_in_agent = agent is not None and any(m is stored.message for m in agent.messages)
        return stored if same_start and not is_in_agent else None

    def rewrite_unwritten(self, message: Message) -> None:
        """Replace a message that is not yet written."""
        self.pending_messages = [
            replace(new, payload=message)
            if new.payload["tracking_id"] == message["tracking_id"]
            else new
            for new in self.pending_messages
        ]

    def has_changes(self, agent: LocalAgent) -> bool:
        """Return whether the agent has anything that is not in the database."""
        return bool(
            self.pending_messages
            or self.spent != Usage()
            or self.state_to_write(agent, with_window=True) is not None
            or self.find_repinned(agent)
        )

    def find_repinned(self, agent: LocalAgent) -> list[HeldMessage]:
        """Return the stored messages whose pin has changed since they were stored.

        Strands marks a pinned message in its metadata, in place and without an event. If the mark
        were not stored, a later process would drop the message with the others.
        """
        changed = []
        for message in agent.messages:
            stored = self._stored.get(message.get("tracking_id", ""))
            if stored and stored.message is message and stored.is_pinned != is_pinned(message):
                changed.append(stored)
        return changed

    def keep_pending(self, messages: list[NewMessage]) -> None:
        """Keep these of the unwritten messages; the others were refused."""
        refused = {new.payload["tracking_id"] for new in self.pending_messages}
        self.not_stored |= refused - {new.payload["tracking_id"] for new in messages}
        self.pending_messages = messages

    def find(self, tracking_id: str) -> HeldMessage | None:
        """Return a stored message by its tracking id."""
        return self._stored.get(tracking_id)

    def find_same(self, message: Message) -> Iterator[HeldMessage]:
        """Iterate over the stored messages that are this same dict, as after a retried prompt."""
        for stored in [*self._stored.values(), *self._duplicates]:
            if stored.message is message:
                yield stored

    def all_stored(self) -> Iterator[HeldMessage]:
        """Iterate over all messages that this process stored or restored."""
        yield from self._stored.values()
        yield from self._duplicates

    def mark_synced(self, new: NewState) -> None:
        """Record that the agent's state is in the database."""
        self._written_fingerprint = new.fingerprint
        self.known_state = new.state
        if new.window != self._window:
            self._window = new.window
            self._forget_dropped()

    def state_to_write(self, agent: LocalAgent, *, with_window: bool) -> NewState | None:
        """Return the state to write; None if it is in the database."""
        current, synced = fingerprint(agent), self._written_fingerprint
        if self.corrections.secrets and (with_window or current != synced):
            # A model that was responding at the time of the redaction may have summarized it.
            mask_agent(agent, self.corrections.secrets)
            current = fingerprint(agent)
        window = self._window
        manager_changed = (
            synced is None or current.conversation_manager != synced.conversation_manager
        )
        if (with_window or manager_changed) and not is_stateful(agent):
            window = window_of(self._held(agent), [*self.all_stored()], self._window)
        if current == synced and window == self._window:
            return None
        state = formats.agent_state(SessionAgent.from_agent(agent), window=window)
        return NewState(self.corrections.apply(state), current, window)

    def set_window(self, window: Any, end: int) -> None:
        """Set the window of an earlier process, and the position after its last message."""
        self._window = window
        self._end = end

    def find_held(self) -> None:
        """Find the dicts that the agent holds: a context manager may have replaced some."""
        if (agent := self.agent()) is not None:
            self._held(agent)

    def _held(self, agent: LocalAgent) -> list[HeldMessage]:
        left_out = self.not_stored.union(
            new.payload.get("tracking_id") for new in self.pending_messages
        )
        messages = [m for m in agent.messages if m.get("tracking_id", "") not in left_out]
        held = []
        for message, stored in match_rows(messages, [*self.all_stored()]):
            if stored is None:
                stored = HeldMessage(-1, message)
            elif stored.message is not message:
                # A context manager may have replaced the dict by another one.
                stored = self._replace(stored, stored._replace(message=message))
            held.append(stored)
        return held

    def _replace(self, stored: HeldMessage, changed: HeldMessage) -> HeldMessage:
        tracking_id = stored.message["tracking_id"]
        if self._stored.get(tracking_id) is stored:
            self._stored[tracking_id] = changed
        if self._latest is stored:
            self._latest = changed
        self._duplicates = [changed if one is stored else one for one in self._duplicates]
        return changed

    def _forget_dropped(self) -> None:
        """Forget messages that the agent no longer holds, which may be large."""
        agent = self.agent()
        held = {message.get("tracking_id") for message in agent.messages} if agent else set()
        self._stored = {k: stored for k, stored in self._stored.items() if k in held}
        self._duplicates = [s for s in self._duplicates if s.message["tracking_id"] in held]


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


def is_prompt(message: Message) -> bool:
    """Return whether a message begins a turn, and does not continue one."""
    return message["role"] == "user" and not any("toolResult" in b for b in message["content"])


def is_stateful(agent: LocalAgent) -> bool:
    """Return whether the model's provider stores the conversation, so that the agent holds none."""
    return isinstance(agent, Agent) and agent.model.stateful


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
