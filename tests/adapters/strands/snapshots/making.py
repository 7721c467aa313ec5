"""Agents on snapshots, for tests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, TypeVar
from uuid import uuid4

from strands import Agent
from strands.session import SnapshotSessionManager
from strands.types.session import encode_bytes_values

from django_agent_sessions.adapters.strands import DjangoStorage
from tests.adapters.strands.scripted import ScriptedModel
from tests.adapters.strands.tools import add, approve

T = TypeVar("T")

LATEST = "session/s/scopes/agent/default/snapshots/snapshot_latest.json"


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs async work from a test."""
    return asyncio.run(work)


def build(*steps: Any, storage: Any = None, session_id: str = "s", **options: Any) -> Agent:
    """Builds an agent as a new process would."""
    of_manager = {
        name: options.pop(name)
        for name in ("save_latest_on", "snapshot_trigger")
        if name in options
    }
    manager = SnapshotSessionManager(
        session_id, storage=DjangoStorage() if storage is None else storage, **of_manager
    )
    choose = options.pop("choose", None)
    return Agent(
        model=ScriptedModel(steps, choose=choose),
        tools=[add, approve],
        callback_handler=None,
        session_manager=manager,
        **options,
    )


def manager_of(agent: Agent) -> SnapshotSessionManager:
    """The session manager of an agent."""
    assert isinstance(agent._session_manager, SnapshotSessionManager)
    return agent._session_manager


def message(text: str, role: str = "user", tracked: bool = True, **more: Any) -> dict[str, Any]:
    """A message as an agent has it."""
    made: dict[str, Any] = {"role": role, "content": [{"text": text}], **more}
    return {**made, "tracking_id": str(uuid4())} if tracked else made


def snapshot(messages: list[Any], **data: Any) -> dict[str, Any]:
    """A snapshot as an agent takes it."""
    return {
        "scope": "agent",
        "schema_version": "1.0",
        "created_at": "2026-01-02T03:04:05.678901Z",
        "data": {
            "messages": messages,
            "state": {},
            "conversation_manager_state": {
                "__name__": "SlidingWindowConversationManager",
                "removed_message_count": 0,
            },
            "interrupt_state": {"interrupts": {}, "context": {}, "activated": False},
            "system_prompt": None,
            "model_state": {},
            **data,
        },
        "app_data": {},
    }


def blob(document: Any) -> bytes:
    """What Strands writes of a snapshot."""
    return json.dumps(encode_bytes_values(document), ensure_ascii=False).encode()


def saved(*messages: Any, **data: Any) -> bytes:
    """What Strands writes of an agent with these messages."""
    return blob(snapshot(list(messages), **data))


def immutable(number: int) -> str:
    """The key of an immutable snapshot."""
    return (
        "session/s/scopes/agent/default/snapshots/immutable_history/"
        f"snapshot_0190c0de-0000-7000-8000-{number:012x}.json"
    )
