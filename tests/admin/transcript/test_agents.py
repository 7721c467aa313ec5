"""Agents of one session are told apart, and each can be read alone."""

from __future__ import annotations

from uuid import uuid4

import pytest

from django_agent_sessions.admin.transcript import sidebar
from django_agent_sessions.content.dialects import STRANDS
from django_agent_sessions.models import SessionAgent
from tests.admin.transcripts import call, fragment_url, page_url, said, shown

pytestmark = pytest.mark.django_db


def test_one_agent_can_be_read_alone(client, reader, talker, store):
    other = store.agents.open(store.open("session-1"), "helper", dialect=STRANDS)
    store.append(talker, said("user", "for the planner"))
    store.append(other, said("user", "for the helper"))

    page = shown(client, page_url("session-1"), agent=other.id)

    assert "for the helper" in page
    assert "for the planner" not in page
    assert client.get(page_url("session-1"), {"agent": str(uuid4())}).status_code == 404
    assert client.get(page_url("session-1"), {"agent": "nonsense"}).status_code == 404
    assert client.get(page_url("session-1"), {"at": "nonsense"}).status_code == 404


def test_many_conversations_of_agents_are_told_apart_by_name(client, reader, session, store):
    for number in range(8):
        agent = store.agents.open(session, f"agent-{number}", dialect=STRANDS)
        store.append(agent, said("assistant", "words", call("1", "f")))

    page = shown(client, page_url("session-1"))

    for number in range(8):
        assert page.count(f"agent-{number}") >= 3


def test_of_a_great_many_agents_each_is_read_in_its_own_format(client, reader, session, store):
    SessionAgent.objects.bulk_create(
        SessionAgent(session_id=session.id, agent_id=f"agent-{number}", dialect=STRANDS)
        for number in range(sidebar.MAX_AGENTS)
    )
    agent = store.agents.open(session, "the-last", dialect=STRANDS)
    store.append(agent, said("assistant", "**bold** words", call("1", "search", query="lamp")))

    for query in ({}, {"agent": agent.id}):
        page = shown(client, page_url("session-1"), **query)
        part = shown(client, fragment_url("session-1"), **query)
        for text in (page, part):
            assert "<strong>bold</strong> words" in text
            assert '<span class="as-tool-name">search</span>' in text
            assert "the-last" in text
        assert '<th scope="row">the-last</th>' in page
        assert "There are more agents than this page lists." in page

    other = store.agents.open(store.open("another"), dialect=STRANDS)
    assert client.get(page_url("session-1"), {"agent": str(other.id)}).status_code == 404


def test_a_hundred_agents_are_all_listed(client, reader, session):
    SessionAgent.objects.bulk_create(
        SessionAgent(session_id=session.id, agent_id=f"agent-{number}", dialect=STRANDS)
        for number in range(sidebar.MAX_AGENTS)
    )

    page = shown(client, page_url("session-1"))

    assert "agent-99" in page
    assert "There are more agents" not in page
