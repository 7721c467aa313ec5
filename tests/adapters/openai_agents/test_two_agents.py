"""Several agents of one session have conversations of their own."""

from __future__ import annotations

import asyncio

import pytest
from agents import Runner

from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession, DjangoSession
from django_agent_sessions.db.bridge import arun_orm
from django_agent_sessions.exceptions import ConfigurationError, InvalidIdError
from django_agent_sessions.models import Session, SessionAgent
from django_agent_sessions.store import SessionStore

from .scripted import call
from .team import assistant, pay, texts, user

pytestmark = pytest.mark.django_db(transaction=True)

SESSIONS = [DjangoSession, AdvancedDjangoSession]


@pytest.mark.parametrize("session_class", SESSIONS)
async def test_each_agent_reads_pops_and_clears_its_own_conversation(session_class):
    writer = session_class("s", agent_id="writer")
    critic = session_class("s", agent_id="critic")
    await Runner.run(assistant("A poem."), "Write", session=writer)
    await Runner.run(assistant("Too long."), "Judge", session=critic)

    again = session_class("s", agent_id="writer")
    assert texts(await again.get_items()) == ["Write", "A poem."]
    assert texts(await critic.get_items()) == ["Judge", "Too long."]

    await critic.pop_item()
    await again.clear_session()
    assert await writer.get_items() == []
    assert texts(await critic.get_items()) == ["Judge"]
    assert await arun_orm(Session.objects.count) == 1


@pytest.mark.parametrize("session_class", SESSIONS)
async def test_two_agents_that_begin_at_once_share_the_new_session(session_class):
    names = [f"agent {number}" for number in range(4)]
    await asyncio.gather(
        *(session_class("s", agent_id=name).add_items([user(name)]) for name in names)
    )

    assert await arun_orm(Session.objects.count) == 1
    for name in names:
        assert texts(await session_class("s", agent_id=name).get_items()) == [name]


async def test_a_run_that_waits_for_a_person_is_resumed_by_its_own_agent_only():
    first = DjangoSession("s", agent_id="first")
    second = DjangoSession("s", agent_id="second")
    await second.add_items([user("Hello")])
    agent = assistant(call("pay", amount=7), "Paid.")
    agent.tools = [pay]
    assert await first.save_run_state(await Runner.run(agent, "Pay 7", session=first))

    assert await second.take_run_state(agent) is None
    assert await first.take_run_state(agent) is not None


async def test_an_object_whose_agent_is_changed_reads_the_other_conversation():
    session = DjangoSession("s", agent_id="first")
    await session.add_items([user("one")])
    session.agent_id = "second"

    assert await session.get_items() == []
    await session.add_items([user("two")])
    assert await arun_orm(lambda: SessionAgent.objects.count()) == 2


def test_an_agent_of_another_sdk_and_an_invalid_id_are_refused():
    store = SessionStore()
    store.agents.open(store.open("s"), "bot", dialect="strands")

    with pytest.raises(ConfigurationError, match="another session_id, namespace or agent_id"):
        asyncio.run(DjangoSession("s", agent_id="bot").get_items())
    with pytest.raises(InvalidIdError, match="agent_id"):
        DjangoSession("s", agent_id=" ")
