"""What a storage remembers of the agents it read and wrote: enough to tell what is new."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from uuid import UUID

from django_agent_sessions.adapters.strands.scrubbing import Corrections
from django_agent_sessions.records import AgentState
from django_agent_sessions.store.snapshot_records import LastRow

from .alignment import Text

V = TypeVar("V")


@dataclass
class Known:
    """An agent as this storage last read or wrote it."""

    session: UUID
    agent: UUID
    epoch: int
    revision: int | None
    last: LastRow | None
    branch: int
    messages: list[Any] = field(repr=False)
    text: Text | None = field(repr=False)
    snapshot_id: str
    document: Any = field(repr=False)
    state: AgentState | None = field(default=None, repr=False)
    corrections: Corrections = field(default_factory=Corrections, repr=False)
    outdated: bool = False

    @property
    def end(self) -> int:
        """The position behind the last message."""
        return 0 if self.last is None else self.last.position + 1


@dataclass
class KnownOrchestrator:
    """An orchestrator as this storage last read or wrote it."""

    session: UUID
    epoch: int
    state: Any = field(repr=False)
    corrections: Corrections = field(default_factory=Corrections, repr=False)


class Memory(Generic[V]):
    """The last of what was read and written."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: OrderedDict[Hashable, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> V | None:
        """What is known under a key."""
        with self._lock:
            found = self._found.get(key)
            if found is not None:
                self._found.move_to_end(key)
            return found

    def keep(self, key: Hashable, value: V) -> None:
        """Remembers, and forgets what was not used for the longest time."""
        with self._lock:
            self._found[key] = value
            self._found.move_to_end(key)
            while len(self._found) > self._most:
                self._found.popitem(last=False)

    def forget(self, key: Hashable) -> None:
        """Forgets one."""
        with self._lock:
            self._found.pop(key, None)


class AgentMemory(Memory[Known]):
    """The last agents, with their conversations up to a size."""

    def __init__(self, most: int, size: int) -> None:
        super().__init__(most)
        self._size = size

    def keep(self, key: Hashable, value: Known) -> None:
        """Remembers, and forgets what was not used for the longest time: first conversations."""
        super().keep(key, value)
        size = 0
        with self._lock:
            for known in reversed(self._found.values()):
                if known.text is not None:
                    size += len(known.text.data)
                    if size > self._size:
                        known.text = None
