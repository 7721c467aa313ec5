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
from django_agent_sessions.records import SessionRecord, Usage
from django_agent_sessions.store import SessionStore

from .scrubbing import Corrections, as_state, scrub_orchestrator

_ENDED_MIDWAY = frozenset({"interrupted", "failed"})


class Orchestrators:
    """The orchestrators of one session."""

    def __init__(self, store: SessionStore, session: Callable[[], SessionRecord]) -> None:
        self._store = store
        self._session = session
        self._synced: dict[str, dict[str, Any]] = {}
        self._counted: dict[str, Usage] = {}
        self._loaded: dict[str, Any] = {}
        self._live: dict[str, weakref.ref[MultiAgentBase]] = {}
        self._corrections: dict[str, Corrections] = {}

    def changed_state(self, source: MultiAgentBase) -> dict[str, Any] | None:
        """Makes the state to write; None if it is in the database as it is."""
        state = source.serialize_state()
        return None if state == self._synced.get(source.id) else state

    def restore(self, source: MultiAgentBase, state: dict[str, Any] | None) -> None:
        """Gives an orchestrator what its session holds, if it holds anything."""
        self._live[source.id] = weakref.ref(source)
        if state is not None:
            source.deserialize_state(state)
            # A killed process has not counted what its nodes spent; an ended invocation has.
            goes_on = state.get("next_nodes_to_execute") and state.get("status") in _ENDED_MIDWAY
            self._counted[source.id] = _accumulated(state) if goes_on else Usage()
        self._synced[source.id] = copy.deepcopy(state or source.serialize_state())

    def reader(self, source: MultiAgentBase) -> Callable[[], dict[str, Any] | None]:
        """Makes the database work that reads an orchestrator's state, or creates its row."""
        if source.id in self._loaded:
            return functools.partial(self._loaded.pop, source.id)
        return functools.partial(self._read_or_make, source.id, source.serialize_state())

    def changed_elsewhere(self, multi_agent_id: str) -> dict[str, Any] | None:
        """Reads a state that another process wrote since it was known; database work."""
        found = self._store.read_multi_agent(self._session(), multi_agent_id)
        if found is None or found.state == self._synced.get(multi_agent_id):
            return None
        state: dict[str, Any] = found.state
        return state

    def load_ahead(self) -> None:
        """Reads all states; database work."""
        self._loaded = {
            record.multi_agent_id: record.state
            for record in self._store.list_multi_agents(self._session())
        }

    def taken_since_known(self) -> set[str]:
        """Finds out what was redacted in the states; database work."""
        if not self._synced:
            return set()
        found: set[str] = set()
        for record in self._store.list_multi_agents(self._session()):
            known = self._synced.get(record.multi_agent_id)
            if known is not None:
                corrections = self._corrections.setdefault(record.multi_agent_id, Corrections())
                corrections.note(as_state(known), as_state(record.state))
                found |= corrections.secrets
        return found

    def scrub(self, secrets: set[str]) -> None:
        """Takes what was redacted out of the orchestrators, and of all that they write from now on.

        An orchestrator keeps copies of what its nodes said in places of its own.
        """
        for name, reference in self._live.items():
            self._corrections.setdefault(name, Corrections()).secrets |= secrets
            source = reference()
            if source is not None:
                scrub_orchestrator(source, secrets)

    def write(
        self,
        multi_agent_id: str,
        state: dict[str, Any] | None,
        *,
        epoch: int | None = None,
        ended: bool = False,
    ) -> None:
        """Writes a state, and counts an invocation that ended; database work."""
        session = self._session()
        if state is not None:
            corrections = self._corrections.get(multi_agent_id, Corrections())
            state = corrections.apply(as_state(state)).conversation_manager_state
            if not self._store.update_multi_agent(session, multi_agent_id, state, epoch=epoch):
                raise SessionException(
                    f"Orchestrator {multi_agent_id!r} of session {session.session_id!r} was deleted"
                )
            # A copy, because the state refers to what the orchestrator goes on changing.
            self._synced[multi_agent_id] = copy.deepcopy(state)
        if ended:
            self._store.touch(session.id, self._newly_spent(multi_agent_id))

    def _read_or_make(self, multi_agent_id: str, state: dict[str, Any]) -> dict[str, Any] | None:
        session = self._session()
        found = self._store.read_multi_agent(session, multi_agent_id)
        if found is None:
            try:
                self._store.create_multi_agent(
                    session, multi_agent_id, state, kind=str(state.get("type", ""))
                )
            except SessionConflictError:
                # Another process made it at this very moment.
                found = self._store.read_multi_agent(session, multi_agent_id)
        return None if found is None else found.state

    def _newly_spent(self, multi_agent_id: str) -> Usage:
        state = self._synced.get(multi_agent_id) or {}
        before = self._counted.get(multi_agent_id, Usage())
        now = _accumulated(state)
        # Only an interrupted invocation goes on counting in this process; any other starts anew.
        interrupted = state.get("status") == "interrupted"
        self._counted[multi_agent_id] = now if interrupted else Usage()
        return Usage(
            0,
            max(now.input_tokens - before.input_tokens, 0),
            max(now.output_tokens - before.output_tokens, 0),
        )


def _accumulated(state: Mapping[str, Any]) -> Usage:
    usage = state.get("accumulated_usage") or {}
    return Usage(0, usage.get("inputTokens", 0), usage.get("outputTokens", 0))
