"""Restore an agent from its session."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

from strands import Agent
from strands.agent.conversation_manager import ConversationManager
from strands.agent.state import AgentState as StrandsAgentState
from strands.types.content import Message

from django_agent_sessions.content.message_references import (
    inline_messages,
    is_conversation_manager_state,
    is_position,
)
from django_agent_sessions.exceptions import UnreadableStateError
from django_agent_sessions.values.records import AgentRecord, AgentState, RestoredMessage

from . import formats
from .conversation import Conversation, NewState, fingerprint, is_stateful
from .held_messages import HeldMessage, copy_of
from .newer_names import LocalAgent
from .offloaded import fill_stash
from .tool_pairs import calls_of, pair_calls, results_of

Restored: TypeAlias = list[RestoredMessage]
"""The messages of ``store.messages.restore``, with tracking ids."""


class StoredAgent(NamedTuple):
    """The stored data of an agent.

    ``end`` is the position after the last message, 0 if unused; ``originals`` are for its stash.
    """

    record: AgentRecord
    restored: Restored
    end: int
    originals: dict[str, Any]


def is_strands_message(payload: Any) -> bool:
    """Return whether a payload has the fields of a Strands message that restoring needs."""
    return (
        isinstance(payload, dict)
        and payload.get("role") in ("user", "assistant")
        and isinstance(payload.get("content"), list)
    )


def restore_agent(
    agent: LocalAgent, conversation: Conversation, found: StoredAgent, session_id: str
) -> None:
    """Restore an agent from its stored data."""
    what = f"agent {agent.agent_id!r} of session {session_id!r} ({found.record.session})"
    with name_unreadable(what):
        _restore_agent(agent, conversation, found, what)
    fill_stash(agent, found.originals)


@contextmanager
def name_unreadable(what: str) -> Iterator[None]:
    """Raise ``UnreadableStateError`` for a state that this release of Strands cannot read."""
    try:
        yield
    except UnreadableStateError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise UnreadableStateError(
            f"the state of {what} cannot be read: it is damaged, or was stored by another release "
            "of Strands or another class; use that again"
        ) from error


def _restore_agent(
    agent: LocalAgent, conversation: Conversation, found: StoredAgent, what: str
) -> None:
    record, restored, end, _ = found
    if not is_conversation_manager_state(record.data.conversation_manager_state):
        raise ValueError("not the state of a conversation manager")
    conversation.record = record
    # Copied, because the agent holds the messages of the window, and changes them.
    data = copy.deepcopy(record.data)
    window = _window(data)
    conversation.set_window(window, end)
    agent.state = StrandsAgentState(record.data.state)
    formats.session_agent(record).initialize_internal_state(agent)
    summary_messages: list[Message] = []
    manager_state = record.data.conversation_manager_state
    # Bidirectional agents and agents that were created by other tools have none.
    if isinstance(agent, Agent) and manager_state:
        summary_messages = _restore_conversation_manager(
            agent.conversation_manager, manager_state, what
        )
    if isinstance(agent, Agent) and agent._interrupt_state.activated:
        restored = _move_interrupted_last(agent, conversation, restored)
    messages = [row.payload for row in restored]
    if record.data.window is None:
        # A window contains the summary, where the agent had it.
        messages = [*summary_messages, *messages]
    repaired = pair_calls(messages)
    _remember(conversation, record, restored)
    if repaired is not messages:
        known = set(map(id, messages))
        conversation.not_stored |= {m["tracking_id"] for m in repaired if id(m) not in known}
    if not is_stateful(agent):
        agent.messages = repaired
    conversation.mark_synced(NewState(data, fingerprint(agent), window))


def _window(data: AgentState) -> Any:
    """Return the window; without one, Strands' own count of removed messages is the offset."""
    removed = removed_count(data)
    return data.window or ({"kept": [], "tail": removed} if removed else None)


def removed_count(data: AgentState) -> int:
    """Return the number of messages that a conversation manager of Strands removed."""
    state = data.conversation_manager_state
    removed = state.get("removed_message_count", 0) if isinstance(state, dict) else 0
    return removed if is_position(removed) else 0


def _remember(conversation: Conversation, record: AgentRecord, restored: Restored) -> None:
    # The store restores the very dicts of the state.
    inline = set(map(id, inline_messages(record.data)))
    conversation.remember_as(
        [
            HeldMessage(
                position, message, None if id(message) in inline else copy_of(message), None
            )
            for position, message, _ in restored
            if position is not None
        ]
    )


def _restore_conversation_manager(
    manager: ConversationManager, state: dict[str, Any], what: str
) -> list[Message]:
    try:
        return manager.restore_from_session(state) or []
    except ValueError as error:
        stored, current = state.get("__name__"), type(manager).__name__
        if stored == current:
            raise
        # Strands' own message names neither the stored manager nor the agent.
        raise UnreadableStateError(
            f"{what} was stored with the conversation manager {stored}, and {current} cannot read "
            "its state: use the stored conversation manager, or clear conversation_manager_state "
            "and window with store.agents.update, so that the agent starts with all messages"
        ) from error


def _move_interrupted_last(
    agent: Agent, conversation: Conversation, restored: Restored
) -> Restored:
    """Move the interrupted turn to the end: the agent continues there, whatever came after it.

    Other calls without results do not count: their process may have been killed.
    """
    pending = getattr(agent._interrupt_state, "pending_tool_execution", None)
    waiting = calls_of(pending.assistant_message) if pending is not None else set()
    for call in reversed(restored):
        if waiting & results_of(call.payload):
            # The interrupt was answered, but the process was killed before it wrote the state.
            agent._interrupt_state.deactivate()
            break
        if waiting & calls_of(call.payload):
            run_id = call.run_id
            conversation.run_id = run_id or conversation.run_id
            return sorted(
                restored,
                key=lambda row: (run_id is not None and row.run_id == run_id, row is call),
            )
    return restored
