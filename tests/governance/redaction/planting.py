"""A session with a secret in every place that content can be in."""

from __future__ import annotations

import base64
import json
from typing import Any

from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import AgentState, SessionRecord

SECRET = "plantedsecret"


def plant(store: SessionStore, secret: str = SECRET, session_id: str = "s") -> SessionRecord:
    """Plants it: twelve messages of two agents, three states, title, metadata and origin."""
    half, rest = secret[: len(secret) // 2], secret[len(secret) // 2 :]
    session = store.open(
        session_id,
        title=f"About {secret}",
        metadata={secret: [secret], "deep": json.dumps({"a": secret})},
    )
    Session.objects.filter(pk=session.id).update(origin={"path": f"/chats/{secret}"})
    strands = store.agents.open(session, "strands", dialect="strands", data=_state(secret))
    store.append_many(
        strands,
        [
            _said("user", {"text": f"My card is {secret}."}),
            _said(
                "assistant",
                {"reasoningContent": {"reasoningText": {"text": secret, "signature": "c2ln"}}},
                {"text": f"Looking {secret} up."},
                _use("call-1", {"card": secret, "body": json.dumps({"card": [secret]})}),
            ),
            _said("user", _result("call-1", {"text": secret}, {"json": {"rows": [secret]}})),
            _said("assistant", {"text": f"It is {half}"}, {"text": f"{rest}."}),
            _said("user", {"text": secret.upper()}, _document(secret)),
            _said("assistant", {"text": json.dumps({"said": json.dumps([secret])})}),
        ],
    )
    openai = store.agents.open(session, "openai")
    store.append_many(
        openai,
        [
            {"role": "user", "content": f"My card is {secret}."},
            {
                "type": "reasoning",
                "id": "rs_1",
                "encrypted_content": "gAAAA",
                "summary": [{"type": "summary_text", "text": text} for text in (half, rest)],
            },
            {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "call_1",
                "name": "add",
                "arguments": json.dumps({"a": 1, "b": secret}),
            },
            {"type": "function_call_output", "call_id": "call_1", "output": f"3 {secret}"},
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": secret, "annotations": []}],
            },
        ],
    )
    corrupt = store.append(openai, {"role": "user", "content": "damaged"})
    SessionMessage.objects.filter(pk=corrupt.id).update(
        message=CorruptPayload('{"content": "' + secret), text=""
    )
    store.multi_agents.create(session, "graph", _graph(secret), kind="graph")
    return session


def _said(role: str, *blocks: Any) -> Any:
    return {"role": role, "content": list(blocks)}


def _use(key: str, arguments: Any) -> Any:
    return {"toolUse": {"toolUseId": key, "name": "add", "input": arguments}}


def _result(key: str, *contents: Any) -> Any:
    return {"toolResult": {"toolUseId": key, "status": "success", "content": list(contents)}}


def _document(secret: str) -> Any:
    return {"document": {"format": "txt", "name": "b", "source": {"bytes": secret.encode()}}}


def _state(secret: str) -> AgentState:
    encoded = base64.b64encode(secret.encode()).decode()
    return AgentState(
        state={"note": secret, secret: {"bytes": {"__bytes_encoded__": True, "data": encoded}}},
        conversation_manager_state={
            "__name__": "SummarizingConversationManager",
            "removed_message_count": 0,
            "summary_message": {"role": "user", "content": [{"text": f"They said {secret}"}]},
        },
        internal_state={
            "interrupt_state": {
                "activated": False,
                "context": {},
                "interrupts": {
                    "v1": {"id": "v1", "name": "ask", "reason": secret, "response": secret}
                },
            }
        },
    )


def _graph(secret: str) -> Any:
    message = {"role": "assistant", "content": [{"text": secret}]}
    result = {
        "type": "agent_result",
        "stop_reason": "end_turn",
        "message": message,
        "structured_output": {"card": secret},
    }
    return {
        "type": "graph",
        "id": "graph",
        "status": "completed",
        "completed_nodes": ["research"],
        "failed_nodes": [],
        "node_results": {
            "research": {"result": result, "status": "completed", "execution_time": 1},
            "write": {"result": f"the error was {secret}", "status": "failed"},
        },
        "next_nodes_to_execute": [],
        "current_task": [{"text": f"Find {secret}"}],
        "execution_order": ["research"],
    }
