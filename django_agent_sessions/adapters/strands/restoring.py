"""Giving an agent what its session holds."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple, TypeAlias, cast

from strands import Agent
from strands.agent.conversation_manager import ConversationManager
from strands.agent.state import AgentState as StrandsAgentState
from strands.session.repository_session_manager import RepositorySessionManager
from strands.types.agent import LocalAgent
from strands.types.content import Message

from django_agent_sessions import transcripts
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.records import AgentRecord

from . import formats
from .conversation import Conversation, fingerprint

Restored: TypeAlias = list[tuple[int, Any, Any]]
"""Position, message and run of each, as ``SessionStore.restore`` reads them, all with ids."""


class Found(NamedTuple):
    """What a session holds of an agent."""

    record: AgentRecord
    restored: Restored
    end: int


def check_dialect(record: AgentRecord) -> None:
    """Refuses an agent that another SDK's adapter made."""
    if record.dialect != transcripts.STRANDS:
        raise ConfigurationError(
            f"agent {record.agent_id!r} holds messages of the format {record.dialect!r}, not of "
            "Strands: use another session or agent_id"
        )


def is_message(payload: Any) -> bool:
    """Tells whether a payload is a message of Strands, as far as a restore needs it."""
    return (
        isinstance(payload, dict)
        and payload.get("role") in ("user", "assistant")
        and isinstance(payload.get("content"), list)
    )


def restore(agent: LocalAgent, conversation: Conversation, found: Found) -> None:
    """Gives an agent what its session holds."""
    record, restored, end = found
    conversation.record = record
    conversation.start_from(record.data.window, end)
    agent.state = StrandsAgentState(record.data.state)
    formats.session_agent(record).initialize_internal_state(agent)
    prepended: list[Message] = []
    manager_state = record.data.conversation_manager_state
    # A bidirectional agent has none, and neither has an agent that another tool made.
    if isinstance(agent, Agent) and manager_state:
        prepended = _restore_conversation_manager(agent.conversation_manager, record)
    for position, message, _ in restored:
        conversation.remember(position, message)
    if isinstance(agent, Agent) and agent._interrupt_state.activated:
        restored = _with_waiting_last(agent, conversation, restored)
    if not (isinstance(agent, Agent) and agent.model.stateful):
        # Pinned messages stand before a summary, as the conversation manager left them.
        tail = record.data.window["tail"] if record.data.window else 0
        pinned = [message for position, message, _ in restored if position < tail]
        others = [message for position, message, _ in restored if position >= tail]
        agent.messages = _repaired([*pinned, *prepended, *others])
    conversation.mark_synced(fingerprint(agent), copy.deepcopy(record.data))


def _restore_conversation_manager(
    manager: ConversationManager, record: AgentRecord
) -> list[Message]:
    state = record.data.conversation_manager_state
    try:
        return manager.restore_from_session(state) or []
    except ValueError as error:
        stored, given = state.get("__name__"), type(manager).__name__
        if stored == given:
            raise
        # Strands' own words do not tell what was stored, nor where.
        raise ConfigurationError(
            f"agent {record.agent_id!r} of session {record.session} was stored with the "
            f"conversation manager {stored}, and is given {given}, which cannot read its state: "
            "give it the former, or clear conversation_manager_state and window with "
            "SessionStore.update_agent, and it begins with all messages"
        ) from error


def _repaired(messages: list[Message]) -> list[Message]:
    """Pairs tool calls and results as Strands' own manager does after an interrupted process."""
    blocks = [block for message in messages for block in message["content"]]
    if not any("toolUse" in block or "toolResult" in block for block in blocks):
        return messages
    ordered = _with_results_behind_calls(messages)
    return RepositorySessionManager._fix_broken_tool_use(cast("Any", None), ordered)


def _with_waiting_last(agent: Agent, conversation: Conversation, restored: Restored) -> Restored:
    """Puts last what waits for a person's answer: it goes on there, whatever was said meanwhile.

    Other calls without results are none of its business: another run may have been killed.
    """
    pending = agent._interrupt_state.pending_tool_execution
    waiting = _calls(pending.assistant_message) if pending is not None else set()
    for position, message, run_id in reversed(restored):
        if waiting & _results(message):
            # The answer was given, and the process killed before it could write that.
            agent._interrupt_state.deactivate()
            break
        if waiting & _calls(message):
            of_run = set() if run_id is None else {row[0] for row in restored if row[2] == run_id}
            conversation.run_id = run_id or conversation.run_id
            return sorted(restored, key=lambda row: (row[0] in of_run, row[0] == position))
    return restored


def _with_results_behind_calls(messages: list[Message]) -> list[Message]:
    """Puts results behind their calls where another process spoke in between.

    That is so where a run was gone on with by two at once, or by one under another run's name.
    """
    ordered = list(messages)
    answered = set().union(*map(_results, messages))
    for index in range(len(ordered) - 1):
        waiting = (_calls(ordered[index]) & answered) - _results(ordered[index + 1])
        for later in range(index + 2, len(ordered) if waiting else 0):
            found = _results(ordered[later])
            if waiting & found and not found & _calls(ordered[later - 1]):
                ordered.insert(index + 1, ordered.pop(later))
                break
    return ordered


def _calls(message: Message) -> set[str]:
    return {b["toolUse"]["toolUseId"] for b in message["content"] if "toolUse" in b}


def _results(message: Message) -> set[str]:
    return {b["toolResult"]["toolUseId"] for b in message["content"] if "toolResult" in b}
