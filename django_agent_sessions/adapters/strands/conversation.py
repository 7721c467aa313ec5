"""What the session manager knows of one agent: where its messages are, and what is not written."""

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
from strands.types.agent import LocalAgent
from strands.types.content import Message
from strands.types.session import SessionAgent

from django_agent_sessions.ids import new_id
from django_agent_sessions.records import AgentRecord, AgentState, MessageRecord, NewMessage, Usage

from . import formats
from .scrubbing import Corrections


class Stored(NamedTuple):
    """A message of an agent that is in the database."""

    position: int
    message: Message
    content: list[Any]
    pinned: bool
    key: UUID | None


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What of an agent's state is in the database, as far as a comparison needs it."""

    state: Any
    interrupts: Any
    conversation_manager: Any
    model: Any


@dataclass
class Conversation:
    """One agent of a session."""

    agent: weakref.ref[LocalAgent]
    record: AgentRecord | None = None
    run_id: UUID = field(default_factory=new_id)
    unwritten: list[NewMessage] = field(default_factory=list)
    unsure: bool = False
    spent: Usage = field(default_factory=Usage)
    provisional: set[UUID] = field(default_factory=set)
    doubtful: bool = False
    known_state: AgentState | None = field(default=None, repr=False)
    corrections: Corrections = field(default_factory=Corrections, repr=False)
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)
    _stored: dict[str, Stored] = field(default_factory=dict)
    _repeated: list[Stored] = field(default_factory=list)
    _latest: Stored | None = None
    _synced: Fingerprint | None = None
    _window: Any = None
    _end: int = 0

    def is_held_by_another(self, agent: LocalAgent) -> bool:
        """Tells whether this conversation's agent lives, and is not this one."""
        if self.agent() not in (None, agent):
            # One that nobody holds any more may still wait for the garbage collector.
            gc.collect()
        return self.agent() not in (None, agent)

    @property
    def next_position(self) -> int:
        """The position after the last message that was there, or that this process wrote."""
        return max(self._end, self._latest.position + 1 if self._latest is not None else 0)

    @property
    def latest(self) -> Stored | None:
        """The last message that this process stored or restored."""
        return self._latest

    def remember(self, position: int, message: Message, key: UUID | None = None) -> None:
        """Notes that a message of the agent is in the database."""
        pinned = "metadata" in message and _is_pinned(message)
        stored = Stored(position, message, list(message["content"]), pinned, key)
        tracking_id = message["tracking_id"]
        before = self._stored.get(tracking_id)
        if before is not None and before.position != position:
            self._repeated.append(before)
        self._stored[tracking_id] = stored
        if self._latest is None or position >= self._latest.position:
            self._latest = stored

    def remember_written(self, records: Iterable[MessageRecord]) -> None:
        """Notes what an append returned."""
        for record in records:
            self.remember(record.message_id, cast(Message, record.message), record.id)

    def forget(self, keys: Collection[UUID]) -> None:
        """Notes that rows were rolled back, and the agent's state perhaps with them."""
        self._stored = {k: s for k, s in self._stored.items() if s.key not in keys}
        self._repeated = [stored for stored in self._repeated if stored.key not in keys]
        self._latest = max(self.all_stored(), key=lambda s: s.position, default=None)
        self._synced = None

    def grown(self, message: Message) -> Stored | None:
        """Finds the message that this one continues.

        Strands merges the input that continues a turn into the last message, and reports the
        merged one as added; it keeps the tracking id of the one it replaces in the agent's list.
        """
        stored = self._stored.get(message["tracking_id"])
        if stored is None or stored.message is message:
            return None
        same_start = message["content"][: len(stored.content)] == stored.content
        agent = self.agent()
        still_there = agent is not None and any(m is stored.message for m in agent.messages)
        return stored if same_start and not still_there else None

    def rewrite_unwritten(self, message: Message) -> None:
        """Replaces a message that is still to be written."""
        self.unwritten = [
            NewMessage(message, id=new.id)
            if new.payload["tracking_id"] == message["tracking_id"]
            else new
            for new in self.unwritten
        ]

    def has_news(self, agent: LocalAgent) -> bool:
        """Tells whether anything of the agent is not in the database."""
        return bool(
            self.unwritten
            or self.spent != Usage()
            or self.unsynced(agent) is not None
            or self.repinned(agent)
        )

    def repinned(self, agent: LocalAgent) -> list[Stored]:
        """Finds what was pinned, or is no longer, since it was stored.

        Strands marks a pinned message in its metadata, in place and without a word. Unless the
        mark is stored, a later process lets the message go with the others.
        """
        found = []
        for message in agent.messages:
            stored = self._stored.get(message.get("tracking_id", ""))
            if stored and stored.message is message and stored.pinned != _is_pinned(message):
                found.append(stored)
        return found

    def find(self, tracking_id: str) -> Stored | None:
        """Finds a stored message by Strands' id."""
        return self._stored.get(tracking_id)

    def same_as(self, message: Message) -> Iterator[Stored]:
        """Finds all stored messages that are this very dict, as after a retried prompt."""
        for stored in [*self._stored.values(), *self._repeated]:
            if stored.message is message:
                yield stored

    def all_stored(self) -> Iterator[Stored]:
        """Yields every message this process stored or restored."""
        yield from self._stored.values()
        yield from self._repeated

    def mark_synced(self, fingerprint: Fingerprint, state: AgentState) -> None:
        """Notes that the agent's state, of this fingerprint, is in the database."""
        self._synced = fingerprint
        self.known_state = state

    def unsynced(self, agent: LocalAgent) -> tuple[AgentState, Fingerprint] | None:
        """Makes the state to write."""
        current = fingerprint(agent)
        if current == self._synced:
            return None
        synced = self._synced
        if synced is None or current.conversation_manager != synced.conversation_manager:
            self._move_window(agent)
        state = formats.agent_state(SessionAgent.from_agent(agent), window=self._window)
        return self.corrections.apply(state), current

    def start_from(self, window: Any, end: int) -> None:
        """Takes over the window that an earlier process left, and where the messages ended."""
        self._window = window
        self._end = end

    def _move_window(self, agent: LocalAgent) -> None:
        """Describes which of the stored messages the agent still holds.

        What a conversation manager removed is not always the oldest: pinned messages stay. And
        another process may have appended what this agent never held. So the window names the
        stragglers, and says from where on everything belongs to the conversation.
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
        # What the agent let go is not needed any more, and may be large.
        self._stored = {k: stored for k, stored in self._stored.items() if k in held}
        self._repeated = [s for s in self._repeated if s.message["tracking_id"] in held]
        kept.update(stored.position for stored in self.all_stored() if stored.position < tail)
        self._window = {"kept": sorted(kept), "tail": tail}


def tracked(message: Message) -> Message:
    """Gives a message Strands' durable id, as Strands itself would before the next model call."""
    track([message])
    return message


def track(messages: Iterable[Message]) -> None:
    """Gives each message that has none a durable id of Strands.

    A conversation of another tool has no ids, and to make them one by one takes longer than to
    read it: one is random, as ``str(uuid4())`` is, and the others count on from it.
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
    """Takes what tells whether an agent's state moved."""
    if not isinstance(agent, Agent):
        return Fingerprint(_version(agent.state), None, None, None)
    return Fingerprint(
        state=_version(agent.state),
        interrupts=_version(agent._interrupt_state),
        conversation_manager=copy.deepcopy(agent.conversation_manager.get_state()),
        model=copy.deepcopy(agent._model_state),
    )


def _version(counted: Any) -> tuple[weakref.ref[Any], int]:
    # Strands counts the changes of both states, and a program may replace them by others, which
    # count from 0 again, and may even get the id of the one that is gone.
    return weakref.ref(counted), counted._get_version()
