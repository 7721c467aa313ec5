"""Remove texts from live agents and orchestrators that were redacted in their session.

They were read before the redaction, so that their next write would write the texts again.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from dataclasses import dataclass, field, fields
from typing import Any, cast
from uuid import UUID

from strands import Agent
from strands.agent.agent_result import AgentResult
from strands.multiagent.base import MultiAgentBase, MultiAgentResult, NodeResult

from django_agent_sessions.content import masking
from django_agent_sessions.values.records import AgentState

from .newer_names import LocalAgent
from .offloaded import mask_stash


@dataclass
class RedactionLog:
    """Redactions of a state since it was read, for all later writes of that state.

    A live agent keeps copies of its state in other objects, so its state is corrected before each
    write.
    """

    secrets: set[str] = field(default_factory=set, repr=False)
    _changes: list[tuple[AgentState, AgentState]] = field(default_factory=list, repr=False)

    def note(self, before: AgentState | None, after: AgentState) -> None:
        """Compare a state with the one in the database now."""
        if before is None:
            return
        pairs = zip(_values(before), _values(after), strict=True)
        removed = set().union(*(masking.masked_texts(*pair) for pair in pairs))
        if removed:
            self.secrets |= masking.searchable_texts(removed)
            self._changes.append((copy.deepcopy(before), copy.deepcopy(after)))

    def apply(self, state: AgentState) -> AgentState:
        """Return a state without the redacted texts."""
        for before, after in self._changes:
            values = zip(_values(state), _values(before), _values(after), strict=True)
            state = AgentState(*(masking.reapply_redaction(*each) for each in values))
        return _mask_state(state, self.secrets)


class StateCache:
    """The states that a repository's callers have read, to detect later redactions.

    A caller that still uses a state that was evicted from this cache can write redacted text again.
    """

    def __init__(self, max_states: int = 10_000) -> None:
        self._max_states = max_states
        self._states: dict[UUID, AgentState] = {}
        self._corrections: dict[UUID, RedactionLog] = {}

    def learn(self, key: UUID, state: AgentState) -> None:
        """Record a state that was read or written."""
        self._states.pop(key, None)
        self._states[key] = copy.deepcopy(state)
        while len(self._states) > self._max_states:
            forgotten = next(iter(self._states))
            del self._states[forgotten]
            self._corrections.pop(forgotten, None)

    def apply_to_agent(self, key: UUID, stored: AgentState, given: AgentState) -> AgentState:
        """Return a state without the texts that were redacted since it was read."""
        corrections = self._corrections.setdefault(key, RedactionLog())
        corrections.note(self._states.get(key), stored)
        return corrections.apply(given)

    def apply_to_orchestrator(self, key: UUID, stored: Any, given: Any) -> Any:
        """Return an orchestrator's state without redacted texts; see `apply_to_agent`."""
        corrected = self.apply_to_agent(key, as_state(stored), as_state(given))
        return corrected.conversation_manager_state


def as_state(orchestrator: Any) -> AgentState:
    """Wrap an orchestrator's state as the structured part of an agent's state."""
    return AgentState(conversation_manager_state=orchestrator)


def _values(state: AgentState) -> list[Any]:
    return [getattr(state, each.name) for each in fields(state)]


def _mask_state(state: AgentState, secrets: Collection[str]) -> AgentState:
    if not secrets:
        return state
    # An application's own state may have any keys; the others are of Strands.
    free, *structured = _values(state)
    masked = (masking.mask_texts(value, secrets, free=False) for value in structured)
    return AgentState(masking.mask_texts(free, secrets), *masked)


def mask_agent(agent: LocalAgent, secrets: Collection[str]) -> None:
    """Mask texts in an agent's messages and states."""
    for message in agent.messages:
        masking.mask_texts_in_place(cast("dict[str, Any]", message), secrets)
    for key, value in agent.state.get().items():
        clean = masking.mask_texts({key: value}, secrets)
        if key not in clean:
            agent.state.delete(key)
        for name, item in clean.items():
            if name != key or item != value:
                agent.state.set(name, item)
    if isinstance(agent, Agent):
        _scrub_attributes(agent.conversation_manager, secrets)
        _scrub_interrupts(agent._interrupt_state, secrets)
        masking.mask_texts_in_place(agent._model_state, secrets)
        mask_stash(agent, secrets)


def mask_orchestrator(source: MultiAgentBase, secrets: Collection[str]) -> None:
    """Mask texts in the results of a graph's or swarm's nodes, and in its task."""
    state = getattr(source, "state", None)
    _scrub_results(getattr(state, "results", None) or {}, secrets)
    for holder, name in ((state, "task"), (state, "handoff_message")):
        value = getattr(holder, name, None)
        if value is not None:
            setattr(holder, name, masking.mask_texts(value, secrets, free=False))
    _scrub_attributes(getattr(source, "shared_context", None), secrets)
    _scrub_interrupts(getattr(source, "_interrupt_state", None), secrets)


def _scrub_results(results: dict[str, NodeResult], secrets: Collection[str]) -> None:
    for node in results.values():
        if isinstance(node.result, AgentResult):
            masking.mask_texts_in_place(cast("dict[str, Any]", node.result.message), secrets)
        elif isinstance(node.result, MultiAgentResult):
            _scrub_results(node.result.results, secrets)


def _scrub_interrupts(state: Any, secrets: Collection[str]) -> None:
    if state is None:
        return
    masking.mask_texts_in_place(state.context, secrets)
    # Before 1.52, an interrupt had none.
    if (pending := getattr(state, "pending_tool_execution", None)) is not None:
        masking.mask_texts_in_place(pending.assistant_message, secrets)
        masking.mask_texts_in_place(pending.completed_tool_results, secrets)
    for interrupt in state.interrupts.values():
        interrupt.reason = masking.mask_texts(interrupt.reason, secrets)
        interrupt.response = masking.mask_texts(interrupt.response, secrets)


def _scrub_attributes(holder: Any, secrets: Collection[str]) -> None:
    # A conversation manager stores its summary in an attribute, whose name varies.
    for value in vars(holder).values() if holder is not None else ():
        if isinstance(value, dict | list):
            masking.mask_texts_in_place(value, secrets)
