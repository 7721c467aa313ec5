"""Taking out of live agents and orchestrators what somebody else redacted in their session.

What they have in memory was read before the redaction. Unless it goes there too, their next write
would bring it back.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any, cast
from uuid import UUID

from strands import Agent
from strands.agent.agent_result import AgentResult
from strands.multiagent.base import MultiAgentBase, MultiAgentResult, NodeResult
from strands.types.agent import LocalAgent

from django_agent_sessions import masking
from django_agent_sessions.records import AgentState


@dataclass
class Corrections:
    """What was redacted in a state since it was known, for all that is still to be written of it.

    A live agent keeps copies in places of its own, so that its state is corrected on its way into
    the database, each time.
    """

    secrets: set[str] = field(default_factory=set, repr=False)
    _seen: list[tuple[AgentState, AgentState]] = field(default_factory=list, repr=False)

    def note(self, before: AgentState | None, after: AgentState) -> None:
        """Compares a state with what is now in the database."""
        if before is None:
            return
        removed = set().union(*(masking.removed(*pair) for pair in _pairs(before, after)))
        if removed:
            self.secrets |= masking.significant(removed)
            self._seen.append((copy.deepcopy(before), copy.deepcopy(after)))

    def apply(self, state: AgentState) -> AgentState:
        """Takes out of a state what was redacted."""
        for before, after in self._seen:
            state = replace(
                state,
                state=masking.follow(state.state, before.state, after.state),
                conversation_manager_state=masking.follow(
                    state.conversation_manager_state,
                    before.conversation_manager_state,
                    after.conversation_manager_state,
                ),
                internal_state=masking.follow(
                    state.internal_state, before.internal_state, after.internal_state
                ),
            )
        return _scrubbed(state, self.secrets)


class KnownStates:
    """What the callers of a repository know of states, so as to tell what was redacted since."""

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._known: dict[UUID, AgentState] = {}
        self._corrections: dict[UUID, Corrections] = {}

    def learn(self, key: UUID, state: AgentState) -> None:
        """Notes a state that was read or written."""
        self._known.pop(key, None)
        self._known[key] = copy.deepcopy(state)
        while len(self._known) > self._most:
            forgotten = next(iter(self._known))
            del self._known[forgotten]
            self._corrections.pop(forgotten, None)

    def corrected_agent(self, key: UUID, stored: AgentState, given: AgentState) -> AgentState:
        """Takes out of a state what was ever redacted since it was known."""
        corrections = self._corrections.setdefault(key, Corrections())
        corrections.note(self._known.get(key), stored)
        return corrections.apply(given)

    def corrected_orchestrator(self, key: UUID, stored: Any, given: Any) -> Any:
        """Does what :meth:`corrected_agent` does, for an orchestrator."""
        corrected = self.corrected_agent(key, as_state(stored), as_state(given))
        return corrected.conversation_manager_state


def as_state(orchestrator: Any) -> AgentState:
    """Puts an orchestrator's state where the structured state of an agent is."""
    return AgentState(conversation_manager_state=orchestrator)


def _pairs(before: AgentState, after: AgentState) -> list[tuple[Any, Any]]:
    return [
        (before.state, after.state),
        (before.conversation_manager_state, after.conversation_manager_state),
        (before.internal_state, after.internal_state),
    ]


def _scrubbed(state: AgentState, secrets: Collection[str]) -> AgentState:
    if not secrets:
        return state
    return replace(
        state,
        state=masking.scrub(state.state, secrets),
        conversation_manager_state=masking.scrub(
            state.conversation_manager_state, secrets, free=False
        ),
        internal_state=masking.scrub(state.internal_state, secrets, free=False),
    )


def scrub_agent(agent: LocalAgent, secrets: Collection[str]) -> None:
    """Masks texts in an agent's messages and states."""
    for message in agent.messages:
        masking.scrub_in_place(cast("dict[str, Any]", message), secrets)
    for key, value in agent.state.get().items():
        clean = masking.scrub({key: value}, secrets)
        if key not in clean:
            agent.state.delete(key)
        for name, item in clean.items():
            if name != key or item != value:
                agent.state.set(name, item)
    if isinstance(agent, Agent):
        _scrub_attributes(agent.conversation_manager, secrets)
        _scrub_interrupts(agent._interrupt_state, secrets)
        masking.scrub_in_place(agent._model_state, secrets)


def scrub_orchestrator(source: MultiAgentBase, secrets: Collection[str]) -> None:
    """Masks texts in what the nodes of a graph or swarm said, and in its task."""
    state = getattr(source, "state", None)
    _scrub_results(getattr(state, "results", None) or {}, secrets)
    for holder, name in ((state, "task"), (state, "handoff_message")):
        value = getattr(holder, name, None)
        if value is not None:
            setattr(holder, name, masking.scrub(value, secrets, free=False))
    _scrub_attributes(getattr(source, "shared_context", None), secrets)
    _scrub_interrupts(getattr(source, "_interrupt_state", None), secrets)


def _scrub_results(results: dict[str, NodeResult], secrets: Collection[str]) -> None:
    for node in results.values():
        if isinstance(node.result, AgentResult):
            masking.scrub_in_place(cast("dict[str, Any]", node.result.message), secrets)
        elif isinstance(node.result, MultiAgentResult):
            _scrub_results(node.result.results, secrets)


def _scrub_interrupts(state: Any, secrets: Collection[str]) -> None:
    if state is None:
        return
    masking.scrub_in_place(state.context, secrets)
    if (pending := state.pending_tool_execution) is not None:
        masking.scrub_in_place(pending.assistant_message, secrets)
        masking.scrub_in_place(pending.completed_tool_results, secrets)
    for interrupt in state.interrupts.values():
        interrupt.reason = masking.scrub(interrupt.reason, secrets)
        interrupt.response = masking.scrub(interrupt.response, secrets)


def _scrub_attributes(holder: Any, secrets: Collection[str]) -> None:
    # A summary is an attribute of its manager, by whatever name.
    for value in vars(holder).values() if holder is not None else ():
        if isinstance(value, dict | list):
            masking.scrub_in_place(value, secrets)
