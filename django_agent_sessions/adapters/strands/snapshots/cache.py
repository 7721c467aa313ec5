"""Cache of the agents that a storage has read and written, to find out what is new."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from uuid import UUID

from django_agent_sessions.adapters.strands.live_redaction import RedactionLog
from django_agent_sessions.store.snapshots import LastMessage
from django_agent_sessions.values.records import AgentState

from .messages import KnownMessage

V = TypeVar("V")


@dataclass
class KnownAgent:
    """An agent as this storage last read or wrote it.

    ``messages`` is None if they were evicted. ``document`` is the rest of the snapshot.
    ``outdated`` means that ``messages`` still contains redacted texts, as does the memory of its
    writer. ``evicted`` means that another writer may have texts that were redacted after its
    messages were evicted; ``refused``, that such a writer was told to restore.
    """

    session: UUID
    agent: UUID
    epoch: int
    revision: int | None
    last: LastMessage | None
    branch: int
    messages: list[KnownMessage] | None = field(repr=False)
    snapshot_id: str
    document: Any = field(repr=False)
    state: AgentState | None = field(default=None, repr=False)
    corrections: RedactionLog = field(default_factory=RedactionLog, repr=False)
    outdated: bool = False
    evicted: bool = False
    refused: bool = False
    size: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.size = sum(len(message.raw) for message in self.messages or ())

    @property
    def end(self) -> int:
        """The position after the last message."""
        return 0 if self.last is None else self.last.position + 1


@dataclass
class KnownOrchestrator:
    """An orchestrator as this storage last read or wrote it."""

    session: UUID
    epoch: int
    state: Any = field(repr=False)
    corrections: RedactionLog = field(default_factory=RedactionLog, repr=False)


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
