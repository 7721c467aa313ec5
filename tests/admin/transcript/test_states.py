"""States of agents and orchestrators are trees, and large ones wait to be opened."""

from __future__ import annotations

from uuid import uuid4

import pytest

from django_agent_sessions.content.dialects import STRANDS
from django_agent_sessions.models import AuditEvent, SessionAgent, SessionMultiAgent
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.values.records import AgentState
from tests.admin.transcripts import page_url, shown

pytestmark = pytest.mark.django_db


def test_a_large_state_of_an_orchestrator_and_a_corrupt_one_are_shown(
    client, reader, talker, session, store
):
    store.multi_agents.create(session, "graph", {"notes": "word " * 20_000}, kind="graph")
    SessionAgent.objects.update(state=CorruptPayload('{"half": '))
    row = SessionMultiAgent.objects.get()
    base = page_url("session-1").removesuffix("change/")

    page = shown(client, page_url("session-1"))

    assert "graph" in page
    assert "word word" not in page
    assert "corrupt: cannot be read" in page
    assert "word word" in shown(client, f"{base}states/orchestrator/{row.pk}/")


def test_states_are_trees_and_large_ones_wait_to_be_opened(client, reader, session, store):
    state = AgentState({"list": ["a value", 1, None, True, b"xyz"]}, {"big": "word " * 20_000})
    agent = store.agents.open(session, "planner", dialect=STRANDS, data=state)

    page = shown(client, page_url("session-1"))
    url = f"{page_url('session-1').removesuffix('change/')}states/conversation_manager_state/"
    part = client.get(f"{url}{agent.id}/", {"fragment": 1}).content.decode()

    assert "a value" in page
    assert "word word" not in page
    assert "word word" in part
    download = client.get(f"{url}{agent.id}/", {"download": 1})
    assert download["Content-Disposition"].startswith("attachment")
    assert download.content.startswith(b'{"big":"word ')
    assert client.get(f"{url}{uuid4()}/").status_code == 404
    assert (
        client.get(f"{url}{agent.id}/".replace("conversation_manager_state", "window")).status_code
        == 404
    )
    assert AuditEvent.objects.filter(target=agent.id).count() == 2
