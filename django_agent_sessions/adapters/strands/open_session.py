"""The session of a manager, which stays open."""

from __future__ import annotations

from typing import Any

from django.db import Error, connections

from django_agent_sessions.adapters.base import AdapterSession, Known, Memory
from django_agent_sessions.values.records import AgentRecord, SessionRecord


class OpenSession(AdapterSession):
    """A session that stays open, with the redaction epoch that writes send.

    It must not be part of a reference cycle, which would keep the conversations in memory until the
    garbage collector runs.
    """

    _record: SessionRecord | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs, memory=Memory(Known(epoch=0)))

    def note_failure(self, error: Error) -> None:
        if connections[self.using].in_atomic_block:
            self.memory.change(failure=error)

    def forget_failure(self) -> None:
        """Let a new run write again."""
        self.memory.change(failure=None)

    def open(self) -> SessionRecord:
        """Return the session; read or create it at the first call."""
        if self._record is None:
            self._record = super().open()
            self.memory.change(epoch=self._record.redaction_epoch)
        return self._record

    def open_with_agents(self) -> tuple[list[AgentRecord], bool]:
        """Open the session; return its agents, and whether it has orchestrators."""
        found = self.store.sessions.find_with_agents(self.session_id, metadata=self._metadata)
        if found is None:
            session = self.reopen()
            return self.store.agents.list(session), True
        self._record, agents, has_orchestrators = found
        self.memory.change(epoch=self._record.redaction_epoch)
        return agents, has_orchestrators

    def reopen(self) -> SessionRecord:
        """Read the session again, or create it."""
        self._record = None
        return self.open()
