"""Fixtures of the tests of going back in time in the admin."""

from __future__ import annotations

import pytest

from django_agent_sessions.content.dialects import STRANDS
from tests.admin.people import staff
from tests.admin.transcripts import said

TRAVELLER = ("view_session", "add_session", "change_session", "delete_session", "read_transcript")


@pytest.fixture
def traveller(client):
    user = staff("traveller", *TRAVELLER)
    client.force_login(user)
    return user


@pytest.fixture
def talker(store):
    """An agent with six messages."""
    agent = store.agents.open(store.open("talk", title="A talk"), "planner", dialect=STRANDS)
    store.append_many(agent, [said("user", f"word {number}") for number in range(6)])
    return agent
