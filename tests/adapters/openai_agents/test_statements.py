"""How many statements each use takes: round trips decide how fast it is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import Runner
from django.db import connection

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.store import SessionStore
from django_agent_sessions.testing import statements as kit
from django_agent_sessions.values.owners import NOBODY

from .scripted import call
from .team import assistant, user

pytestmark = pytest.mark.django_db(transaction=True)


WRITTEN = 1 if connection.vendor == "postgresql" else 2
"""Statements that write items and count them; they are one commit in any case."""


def statements(use: Any) -> list[str]:
    return kit.statements(lambda: asyncio.run(use))


@pytest.fixture
def open_session():
    """An object that has written to its session."""
    session = DjangoSession("s")
    asyncio.run(session.add_items([user("a"), user("b")]))
    return session


@pytest.mark.parametrize("length", [1, 5, 100])
def test_writing_takes_one_statement_and_counting_another_in_one_commit(open_session, length):
    # SQLite's first row has a statement of its own.
    more = int(connection.vendor == "sqlite" and length > 1)
    assert len(statements(open_session.add_items([user("c")] * length))) == WRITTEN + more


def test_reading_takes_one(open_session):
    assert statements(open_session.get_items()) == ["SELECT"]
    assert statements(open_session.get_items(limit=1)) == ["SELECT"]
    assert statements(open_session.get_items(limit=2_147_483_647)) == ["SELECT"]
    assert statements(open_session.get_items(limit=0)) == []


def test_popping_and_clearing_take_one_and_those_for_the_counters(open_session):
    assert len(statements(open_session.pop_item())) == 4
    # One of them deletes the feedback on the messages, and two remember their keys.
    assert len(statements(open_session.clear_session())) <= 8


def test_nothing_to_write_takes_none(open_session):
    assert statements(open_session.add_items([])) == []


@pytest.mark.parametrize("owned", [True, False])
def test_a_new_object_looks_for_the_session_and_its_agent_once(ada, owned):
    owner = ada if owned else NOBODY
    asyncio.run(DjangoSession("s", owner=owner).add_items([user("a"), user("b")]))

    again = DjangoSession("s", owner=owner)
    assert statements(again.get_items()) == ["SELECT"] * 2
    assert statements(again.get_items()) == ["SELECT"]
    assert len(statements(again.add_items([user("c")]))) == WRITTEN
    assert len(statements(DjangoSession("s", owner=owner).add_items([user("d")]))) == 1 + WRITTEN
    assert len(statements(DjangoSession("s", owner=owner).pop_item())) == 5


def test_a_first_write_finds_or_makes_both():
    # One look, and the rows of the session, the agent and the item.
    assert len(statements(DjangoSession("s").add_items([user("a")]))) == 1 + 3


def test_a_long_conversation_takes_as_many_as_a_short_one(open_session):
    asyncio.run(open_session.add_items([user("a")] * 1000))

    assert statements(open_session.get_items(limit=10)) == ["SELECT"]
    assert len(statements(open_session.add_items([user("c")]))) == WRITTEN
    assert len(statements(open_session.pop_item())) == 4


def test_a_run_with_a_tool_takes_one_read_and_three_writes(open_session):
    agent = assistant(call("add", a=1, b=2), "Three.")

    # The history; the input, the tool's turn and the answer with the counters of each.
    found = statements(Runner.run(agent, "1 + 2?", session=open_session))

    assert found[0] == "SELECT"
    # The tool's turn has two items.
    assert len(found) == 1 + 3 * WRITTEN + (connection.vendor == "sqlite")


def test_an_append_to_a_fork_also_looks_for_redacted_originals():
    asyncio.run(DjangoSession("s").add_items([user("a")]))
    store = SessionStore()
    store.sessions.fork(store.get("s"), session_id="fork")

    fork = DjangoSession("fork")
    # The session and its agent, the sessions of its line, and the digests.
    assert len(statements(fork.add_items([user("b")]))) == 3 + WRITTEN
    assert len(statements(fork.add_items([user("c")]))) == 1 + WRITTEN
    assert statements(fork.get_items()) == ["SELECT"]
