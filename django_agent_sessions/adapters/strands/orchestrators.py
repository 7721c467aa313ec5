"""What the session manager knows of the graphs and swarms of a session."""

from __future__ import annotations

import copy
import functools
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from strands.multiagent.base import MultiAgentBase
from strands.types.exceptions import SessionException

from django_agent_sessions.exceptions import SessionConflictError
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import MultiAgentRecord, SessionRecord, Usage
from django_agent_sessions.values.token_counts import token_counts

from .live_redaction import RedactionLog, as_state, mask_orchestrator

ENDED_STATUSES = frozenset({"completed", "failed", "interrupted"})
"""The statuses of an orchestrator whose invocation has ended."""

_UNFINISHED_STATUSES = frozenset({"interrupted", "failed"})


class Orchestrators:
    """The orchestrators of a session. Methods that read or write run in a database thread."""

    def __init__(self, store: SessionStore, session: Callable[[], SessionRecord]) -> None:
        self._store = store
        self._session = session
        self._written_states: dict[str, dict[str, Any]] = {}
        self._counted_usage: dict[str, Usage] = {}
        self._preloaded: dict[str, MultiAgentRecord] = {}
        self._live: dict[str, weakref.ref[MultiAgentBase]] = {}
        self._corrections: dict[str, RedactionLog] = {}

    def changed_state(self, source: MultiAgentBase) -> dict[str, Any] | None:
        """Return the state to write; None if it is in the database already."""
        state = source.serialize_state()
        return None if state == self._written_states.get(source.id) else state

    def restore(self, source: MultiAgentBase, state: dict[str, Any] | None) -> None:
        """Restore an orchestrator from its stored state, if there is one."""
        self._live[source.id] = weakref.ref(source)
        if state is not None:
            source.deserialize_state(state)
            # The usage of an invocation is counted at its end, which a killed process missed.
            continues = (
                state.get("next_nodes_to_execute") and state.get("status") in _UNFINISHED_STATUSES
            )
            self._counted_usage[source.id] = _accumulated_usage(state) if continues else Usage()
        self._written_states[source.id] = copy.deepcopy(state or source.serialize_state())

    def make_reader(self, source: MultiAgentBase) -> Callable[[], dict[str, Any] | None]:
        """Return a function that reads an orchestrator's state, or creates its row."""
        if source.id in self._preloaded:
            return lambda: self._preloaded.pop(source.id).state
        return functools.partial(self._read_or_make, source.id, source.serialize_state())

    def changed_elsewhere(self, multi_agent_id: str) -> dict[str, Any] | None:
        """Return the stored state if another process has changed it; None if not."""
        record = self._store.multi_agents.find(self._session(), multi_agent_id)
        if record is None or record.state == self._written_states.get(multi_agent_id):
            return None
        state: dict[str, Any] = record.state
        return state

    def load_ahead(self, *, none: bool = False) -> None:
        """Read all states; ``none`` if the session is known to have none."""
        records = [] if none else self._store.multi_agents.list(self._session())
        self._preloaded = {record.multi_agent_id: record for record in records}

    def redacted_texts(self) -> set[str]:
        """Return the texts that were redacted in the states since they were read."""
        if not self._written_states:
            return set()
        secrets: set[str] = set()
        for record in self._store.multi_agents.list(self._session()):
            known = self._written_states.get(record.multi_agent_id)
            if known is not None:
                corrections = self._corrections.setdefault(record.multi_agent_id, RedactionLog())
                corrections.note(as_state(known), as_state(record.state))
                secrets |= corrections.secrets
        return secrets

    def scrub(self, secrets: set[str]) -> None:
        """Mask redacted texts in the orchestrators, and in all states that they write from now on.

        An orchestrator keeps copies of its nodes' messages.
        """
        for name, reference in self._live.items():
            self._corrections.setdefault(name, RedactionLog()).secrets |= secrets
            source = reference()
            if source is not None:
                mask_orchestrator(source, secrets)

    def write(
        self,
        multi_agent_id: str,
        state: dict[str, Any] | None,
        *,
        epoch: int | None = None,
        ended: bool = False,
    ) -> None:
        """Write a state, and count the usage of an invocation that ended.

        Raises ``SessionException`` if the orchestrator was deleted, and ``StaleSessionError`` after
        a redaction since ``epoch``.
        """
        session = self._session()
        if state is not None:
            corrections = self._corrections.get(multi_agent_id, RedactionLog())
            state = corrections.apply(as_state(state)).conversation_manager_state
            if not self._store.multi_agents.update(session, multi_agent_id, state, epoch=epoch):
                raise SessionException(
                    f"Orchestrator {multi_agent_id!r} of session {session.session_id!r} was deleted"
                )
            # A copy, because the orchestrator continues to modify parts of the state.
            self._written_states[multi_agent_id] = copy.deepcopy(state)
        if ended:
            self._store.touch(session, self._uncounted_usage(multi_agent_id))

    def _read_or_make(self, multi_agent_id: str, state: dict[str, Any]) -> dict[str, Any] | None:
        session = self._session()
        record = self._store.multi_agents.find(session, multi_agent_id)
        if record is None:
            try:
                self._store.multi_agents.create(
                    session, multi_agent_id, state, kind=str(state.get("type", ""))
                )
            except SessionConflictError:
                # Another process has just created it.
                record = self._store.multi_agents.find(session, multi_agent_id)
        return None if record is None else record.state

    def _uncounted_usage(self, multi_agent_id: str) -> Usage:
        state = self._written_states.get(multi_agent_id) or {}
        before = self._counted_usage.get(multi_agent_id, Usage())
        now = _accumulated_usage(state)
        # Only an interrupted invocation continues its totals; any other starts at zero.
        interrupted = state.get("status") == "interrupted"
        self._counted_usage[multi_agent_id] = now if interrupted else Usage()
        return Usage.of_tokens(map(_increase, before.tokens, now.tokens))


def _increase(before: int | None, now: int | None) -> int | None:
    return None if now is None else max(now - (before or 0), 0)


_COUNTS = (
    "inputTokens",
    "outputTokens",
    "totalTokens",
    "cacheReadInputTokens",
    "cacheWriteInputTokens",
)


def _accumulated_usage(state: Mapping[str, Any]) -> Usage:
    usage = state.get("accumulated_usage") or {}
    return Usage.of_tokens(token_counts(*(usage.get(name) for name in _COUNTS)))
