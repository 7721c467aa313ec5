"""Fixtures of the tests of reading JSON lines."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from django.utils import timezone

from django_agent_sessions.content import codec
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.values.records import AgentState


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sessions.jsonl"


@pytest.fixture
def rich(store, ada):
    """A session with something in each column."""
    session = store.create(
        "talk/1", title="A title", metadata={"z": [1], "a": {"$bytes": 1}}, external_id="e 1"
    )
    state = AgentState({"b": b"\xff", "a": "\x00"}, {"n": 1}, [None], {"kept": [[0, 1]], "tail": 2})
    agent = store.agents.create(session, "first", dialect="strands", data=state)
    store.agents.create(session, "second")
    run = uuid4()
    usage = {"usage": {"inputTokens": 7, "outputTokens": 5}, "metrics": {"latencyMs": 3}}
    store.append_many(
        agent,
        [
            {"role": "user", "content": [{"text": "\ud800 and \x00"}]},
            {"role": "assistant", "content": [{"text": "yes"}], "metadata": usage},
            {"content": [{"text": "kept"}], "role": "user"},
        ],
        run_id=run,
    )
    store.messages.update(agent, 0, {"role": "user", "content": [{"text": "\ud800 or \x00"}]})
    store.messages.redact(agent, 1, {"role": "assistant", "content": [{"text": "[gone]"}]})
    SessionMessage.objects.create(
        session_id=session.id,
        agent_id=agent.id,
        branch=2,
        message_id=5,
        message={"role": "user", "content": [{"text": "elsewhere"}]},
        role="user",
        text=codec.neutral_text("elsewhere"),
    )
    rated = SessionMessage.objects.get(message_id=2)
    store.feedback.save(rated.pk, -1, comment="Not \x01 what I asked.", source="judge:v2")
    store.feedback.save(rated.pk, 0, source="reviewer")
    store.multi_agents.create(session, "g", {"nodes": [b"x"]}, kind="graph")
    store.sessions.update(session.id, archived=True, expires_at=timezone.now() + timedelta(days=9))
    columns = {"origin": {"fork": str(uuid4())}, "message_count": 9, "cost": 10**15}
    Session.objects.filter(pk=session.id).update(**columns)
    SessionMessage.objects.filter(message_id=1).update(model="gpt-5")
    store.open("empty")
    return session
