"""Fixtures of the tests of the page that redacts."""

from __future__ import annotations

import pytest

from django_agent_sessions.values.records import AgentState
from tests.admin.people import staff
from tests.admin.transcripts import call, result, said

from .pages import ENOUGH, SECRET


@pytest.fixture
def clerk(db):
    return staff("clerk", *ENOUGH)


@pytest.fixture
def browser(client, clerk):
    client.force_login(clerk)
    return client


@pytest.fixture
def talk(store):
    """The secret in every place that a session has."""
    session = store.open("talk", title=f"About {SECRET}", metadata={"note": SECRET})
    data = AgentState(state={"note": SECRET}, conversation_manager_state={"summary": SECRET})
    agent = store.agents.open(session, dialect="strands", data=data)
    store.append_many(
        agent,
        [
            said("user", f"My {SECRET} is mine", "and another block"),
            said("assistant", call("c1", "look", word=SECRET)),
            said("user", result("c1", f"found {SECRET.upper()} there")),
            said("assistant", f"It is {SECRET}. Write to ada@example.org"),
        ],
    )
    store.multi_agents.create(session, "graph", {"node_results": {"a": {"result": SECRET}}})
    return session
