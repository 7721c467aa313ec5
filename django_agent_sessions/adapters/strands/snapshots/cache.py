"""Cache of the agents that a storage has read and written, to find out what is new."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db import connections

from django_agent_sessions.adapters.base import Checkpoint
from django_agent_sessions.adapters.strands.live_redaction import RedactionLog
from django_agent_sessions.values.message_version import MessageVersion
from django_agent_sessions.values.records import AgentState

from .messages import SnapshotMessage, tracking_id

V = TypeVar("V")


@dataclass(frozen=True)
class Basis:
    """What a storage read or wrote, and the transaction that may be rolled back."""

    key: UUID
    """The primary key of the agent or, for an orchestrator, of the session."""
    last: MessageVersion | None
    checkpoint: Checkpoint[Basis | None] | None

    def standing(self) -> Basis | None:
        """Return what was not rolled back; None if nothing is left."""
        basis: Basis | None = self
        while basis is not None and basis.checkpoint is not None:
            if not basis.checkpoint.was_rolled_back():
                break
            basis = basis.checkpoint.known
        return basis


def next_basis(using: str, before: Basis | None, key: UUID, last: MessageVersion | None) -> Basis:
    """Return the basis after a read or write in the present transaction."""
    connection = connections[using]
    if not connection.in_atomic_block:
        return Basis(key, last, None)
    before = before.standing() if before is not None else None
    checkpoint = before.checkpoint if before is not None else None
    if checkpoint is not None and checkpoint.is_open():
        if checkpoint.is_of(connection):
            return Basis(key, last, checkpoint)
    elif before is not None:
        # Committed: what was before is no longer required.
        before = Basis(before.key, before.last, None)
    return Basis(key, last, Checkpoint(connection, before))


@dataclass
class KnownAgent:
    """An agent as this storage last read or wrote it.

    ``messages`` is None if they were evicted. ``document`` is the rest of the snapshot.
    ``outdated`` means that ``messages`` still contains redacted texts, as does the memory of its
    writer. ``evicted`` means that another writer may have texts that were redacted after its
    messages were evicted; ``refused``, that such a writer was told to restore. ``removed`` has the
    tracking ids of deleted messages that an earlier writer may still have, and ``restarted`` means
    that the session was deleted and a writer begins a new one.
    """

    session: UUID
    agent: UUID
    epoch: int
    revision: int | None
    last: MessageVersion | None
    branch: int
    messages: list[SnapshotMessage] | None = field(repr=False)
    snapshot_id: str
    document: Any = field(repr=False)
    state: AgentState | None = field(default=None, repr=False)
    corrections: RedactionLog = field(default_factory=RedactionLog, repr=False)
    outdated: bool = False
    evicted: bool = False
    refused: bool = False
    removed: frozenset[str] = frozenset()
    restarted: bool = False
    basis: Basis | None = None
    size: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.size = sum(len(message.raw) for message in self.messages or ())

    @property
    def end(self) -> int:
        """The position after the last message."""
        return 0 if self.last is None else self.last.position + 1


def tracking_ids(known: KnownAgent) -> frozenset[str]:
    """Return the ids of an agent's messages; without those that were evicted."""
    return frozenset(filter(None, map(tracking_id, known.messages or ())))


@dataclass
class KnownOrchestrator:
    """An orchestrator as this storage last read or wrote it."""

    session: UUID
    epoch: int
    state: Any = field(repr=False)
    corrections: RedactionLog = field(default_factory=RedactionLog, repr=False)
    basis: Basis | None = None


class LRUCache(Generic[V]):
    """A cache that evicts the least recently used value."""

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._values: OrderedDict[Hashable, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> V | None:
        """Return the value of a key, if it is cached."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def keep(self, key: Hashable, value: V) -> None:
        """Add or replace a value."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._max_entries:
                self._values.popitem(last=False)

    def forget(self, key: Hashable) -> None:
        """Remove a value."""
        with self._lock:
            self._values.pop(key, None)

    def forget_all(self, is_affected: Callable[[Hashable], bool]) -> None:
        """Remove the values of some keys."""
        with self._lock:
            for key in list(filter(is_affected, self._values)):
                del self._values[key]


class AgentCache(LRUCache[KnownAgent]):
    """A cache of agents that limits the total size of their conversations in bytes."""

    def __init__(self, max_entries: int, max_size: int) -> None:
        super().__init__(max_entries)
        self._max_size = max_size

    def keep(self, key: Hashable, value: KnownAgent) -> None:
        """Add or replace a value; the least recently used conversations are evicted first."""
        super().keep(key, value)
        size = 0
        with self._lock:
            for known in reversed(self._values.values()):
                if known.messages is not None:
                    size += known.size
                    if size > self._max_size:
                        known.messages = None
