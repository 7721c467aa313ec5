"""The session of a manager, which stays open."""

from __future__ import annotations

from typing import Any

from django.db import Error, connections

from django_agent_sessions.adapters.base import AdapterSession, RollbackLog
from django_agent_sessions.values.records import AgentRecord, SessionRecord


class OpenSession(AdapterSession):
    """A session that stays open, with the redaction epoch that writes send.

    It must not be part of a reference cycle, which would keep the conversations in memory until the
    garbage collector runs.
    """

    epoch = 0
    # The error of the first write that failed in the caller's transaction, in the present run.
    failure: Error | None = None
    _record: SessionRecord | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._rollbacks: RollbackLog[int] = RollbackLog()

    def take_back(self) -> None:
        # An epoch that was rolled back may become that of another redaction.
        epoch = self._rollbacks.track(self.using, lambda: self.epoch)
        if epoch is not None:
            self.epoch = epoch
            self.failure = None
        if self.failure is not None and connections[self.using].in_atomic_block:
            # The database may have rolled the transaction back: a write would be refused with
            # another error, which hides this one, or be committed without what came before it.
            raise self.failure

    def note_failure(self, error: Error) -> None:
        if connections[self.using].in_atomic_block:
            self.failure = error

    def open(self) -> SessionRecord:
        """Return the session; read or create it at the first call."""
        if self._record is None:
            self._record = super().open()
            self.epoch = self._record.redaction_epoch
        return self._record

    def open_with_agents(self) -> tuple[list[AgentRecord], bool]:
        """Open the session; return its agents, and whether it has orchestrators."""
        found = self.store.sessions.find_with_agents(self.session_id, metadata=self._metadata)
        if found is None:
            session = self.reopen()
            return self.store.agents.list(session), True
        self._record, agents, has_orchestrators = found
        self.epoch = self._record.redaction_epoch
        return agents, has_orchestrators

    def reopen(self) -> SessionRecord:
        """Read the session again, or create it."""
        self._record = None
        return self.open()
