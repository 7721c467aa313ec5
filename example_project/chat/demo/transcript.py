"""Conversations for people: read by the store, in the neutral parts of any agent framework."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django_agent_sessions.content import dialects
from django_agent_sessions.content.dialects import Part, PartKind
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import AgentRecord, MultiAgentRecord, SessionRecord

LATEST = 200
"""How many messages of an agent are shown, unless all are asked for."""


@dataclass(frozen=True)
class Block:
    """A part of a message, fit for a page.

    Attributes:
        kind: ``"text"``, ``"reasoning"``, ``"call"``, ``"result"`` or ``"other"``.
        label: One line: the tool with its arguments, or what else it is.
        text: The words; of a call, what it returned.
        failed: Whether the tool reported an error.
    """

    kind: str
    label: str = ""
    text: str = ""
    failed: bool = False


@dataclass(frozen=True)
class Message:
    """What somebody said or did.

    Attributes:
        role: Who: ``"user"``, ``"assistant"``, ``"tool"``, ``"system"`` or empty.
        blocks: What, in order.
        created_at: When; None for the answer of a node, of which that is not kept.
        redacted: Whether it was redacted.
    """

    role: str
    blocks: Sequence[Block]
    created_at: datetime | None = None
    redacted: bool = False


@dataclass(frozen=True)
class Conversation:
    """An agent's conversation.

    Attributes:
        name: The agent's name in the session.
        messages: Its messages in order; a tool's result is with its call.
        state: The agent's own state as text; empty if there is none.
        left_out: Whether there are earlier messages.
    """

    name: str
    messages: Sequence[Message]
    state: str = ""
    left_out: bool = False


def conversations(
    store: SessionStore, session: SessionRecord, *, everything: bool = False
) -> list[Conversation]:
    """Reads all conversations of a session.

    Args:
        store: The store of whoever reads.
        session: The session.
        everything: Whether to read all messages, not only the latest.

    Returns:
        One for each agent, then one for each orchestrator.
    """
    return [
        *(_of_agent(store, agent, everything) for agent in store.agents.list(session)),
        *(_of_orchestrator(record) for record in store.multi_agents.list(session)),
    ]


def _of_agent(store: SessionStore, agent: AgentRecord, everything: bool) -> Conversation:
    # One more than is shown tells whether there are more.
    records = store.messages.list(agent) if everything else store.messages.latest(agent, LATEST + 1)
    shown = records if everything else records[-LATEST:]
    read = [(record, dialects.get(agent.dialect).parts(record.content)) for record in shown]
    everybody = [part for _, parts in read for part in parts]
    results = {p.call_id: p for p in everybody if p.kind is PartKind.TOOL_RESULT and p.call_id}
    called = {p.call_id for p in everybody if p.kind is PartKind.TOOL_CALL}
    messages = []
    for record, parts in read:
        blocks = tuple(_blocks(parts, results, called))
        if blocks:
            redacted = record.redact_message is not None
            messages.append(Message(record.role, blocks, record.created_at, redacted))
    state = _json(agent.data.state) if agent.data.state else ""
    return Conversation(agent.agent_id, messages, state, left_out=len(records) > len(shown))


def _of_orchestrator(record: MultiAgentRecord) -> Conversation:
    state = record.state if isinstance(record.state, dict) else {}
    messages = [Message("user", [Block("text", text=_text(state.get("current_task", "")))])]
    results = state.get("node_results") or {}
    strands = dialects.get(dialects.STRANDS)
    for node in state.get("execution_order") or ():
        for _path, message in strands.messages_in(results.get(node)):
            parts = strands.parts(message)
            messages.append(Message(_text(node), tuple(_blocks(parts, {}, frozenset()))))
    name = f"{record.kind} “{record.multi_agent_id}”, {state.get('status', '')}"
    return Conversation(_text(name), messages)


def _blocks(
    parts: Iterable[Part], results: dict[str, Part], called: Iterable[str]
) -> Iterator[Block]:
    for part in parts:
        if part.kind is PartKind.TEXT:
            yield Block("text", text=_text(part.text))
        elif part.kind is PartKind.REASONING:
            yield Block("reasoning", "reasoning", _text(part.text))
        elif part.kind is PartKind.TOOL_CALL:
            result = results.get(part.call_id)
            label = _text(f"{part.name}({_arguments(part.data)})")
            text = _result(result) if result else "no result"
            yield Block("call", label, text, failed=result is not None and _failed(result))
        elif part.kind is PartKind.TOOL_RESULT:
            if part.call_id not in called:
                yield Block("result", "result of a tool", _result(part), failed=_failed(part))
        else:
            yield _other(part)


def _other(part: Part) -> Block:
    if part.kind is PartKind.UNKNOWN:
        return Block("other", "something unknown", _json(part.data))
    said = [part.kind.value, part.name, part.media_type]
    if part.size is not None:
        said.append(f"{part.size:,} bytes")
    return Block("other", _text(", ".join(filter(None, said))), _text(part.text or part.url))


def _failed(result: Part) -> bool:
    return result.status == "error"


def _result(result: Part) -> str:
    return _text(result.text) or (_json(result.data) if result.data is not None else "nothing")


def _arguments(data: Any) -> str:
    if isinstance(data, dict):
        return ", ".join(f"{key}={_json(value)}" for key, value in data.items())
    return "" if data is None else _json(data)


def _json(value: Any) -> str:
    return _text(json.dumps(value, ensure_ascii=False, default=_without_bytes))


def _without_bytes(value: Any) -> str:
    return f"<{len(value):,} bytes>"


def _text(value: Any) -> str:
    return dialects.displayable(str(value))
