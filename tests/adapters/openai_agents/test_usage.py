"""The tokens of a session: what runs report, and unknown where none did."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from agents import Agent, Runner, RunState
from agents.extensions.memory import EncryptedSession
from django.utils import timezone

from django_agent_sessions import usage
from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession, DjangoSession
from django_agent_sessions.db.bridge import arun_orm
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.store import SessionStore

from .compact_api import SUMMARY, Server
from .scripted import ScriptedModel, call
from .team import assistant, user

pytestmark = pytest.mark.django_db(transaction=True)

SESSIONS = [DjangoSession, AdvancedDjangoSession]


def tokens() -> tuple[int | None, int | None]:
    session = Session.objects.get()
    return session.input_tokens, session.output_tokens


def by_item() -> list[tuple[int | None, int | None]]:
    rows = SessionMessage.objects.filter(branch=0).order_by("message_id")
    return list(rows.values_list("input_tokens", "output_tokens"))


NONE = (None, None)


@pytest.mark.parametrize("session_class", SESSIONS)
async def test_each_call_of_a_model_is_counted_with_the_item_that_it_wrote(session_class):
    session = session_class("s")
    await Runner.run(assistant(call("add", a=1, b=2), "Three."), "1 + 2?", session=session)

    assert await arun_orm(tokens) == (20, 10)
    # The question, the call, its result, the answer.
    assert await arun_orm(by_item) == [NONE, (10, 5), NONE, (10, 5)]
    await Runner.run(assistant(), "Thanks", session=session)
    assert await arun_orm(tokens) == (30, 15)


async def test_a_streamed_run_is_counted():
    streamed = Runner.run_streamed(
        assistant(call("add", a=1, b=2), "Three."), "1 + 2?", session=DjangoSession("s")
    )
    async for _ in streamed.stream_events():
        pass

    assert await arun_orm(by_item) == [NONE, (10, 5), NONE, (10, 5)]


async def test_a_run_that_waited_for_a_person_is_counted_once():
    agent = assistant([call("add", a=1, b=2), call("pay", amount=7)], "Paid.")
    result = await Runner.run(agent, "Pay", session=DjangoSession("s"))
    assert await arun_orm(tokens) == (10, 5)

    state = await RunState.from_json(agent, result.to_state().to_json())
    for interruption in state.get_interruptions():
        state.approve(interruption)
    await Runner.run(agent, state, session=DjangoSession("s"))

    assert await arun_orm(tokens) == (20, 10)


async def test_encrypted_items_are_counted():
    inner: Any = DjangoSession("s")
    session = EncryptedSession("s", inner, encryption_key="a key")
    await Runner.run(assistant(), "Hello", session=session)

    assert await arun_orm(tokens) == (10, 5)


async def test_a_summary_is_counted():
    session = DjangoSession("s", compaction=Server().compaction(least=1))
    await Runner.run(assistant(), "Hello", session=session)

    assert await session.get_items() == [SUMMARY]
    assert await arun_orm(by_item) == [(100, 10)]
    assert await arun_orm(tokens) == (110, 15)


async def test_what_no_run_reported_is_unknown_and_not_zero():
    session = DjangoSession("s")
    await session.add_items([user("a")])
    silent = Agent(name="silent", model=ScriptedModel(reports=False))
    await Runner.run(silent, "Hello", session=session)
    await session.pop_item()

    assert await arun_orm(tokens) == NONE
    record = await SessionStore().aget("s")
    assert (record.usage.input_tokens, record.usage.messages) == (None, 2)
    await Runner.run(assistant(), "Hello", session=session)
    assert await arun_orm(tokens) == (10, 5)


@pytest.mark.parametrize("reported", [True, False])
async def test_the_usage_of_a_turn_is_not_counted_twice(reported):
    session = AdvancedDjangoSession("s")
    agent = Agent(name="a", model=ScriptedModel(reports=reported))
    result = await Runner.run(agent, "Hello", session=session)
    if not reported:
        result.context_wrapper.usage.input_tokens = 10
        result.context_wrapper.usage.output_tokens = 5
    await session.store_run_usage(result)
    await AdvancedDjangoSession("s").store_run_usage(result)

    assert await arun_orm(tokens) == (10, 5)
    found: Any = await session.get_session_usage()
    assert (found["input_tokens"], found["output_tokens"]) == (10, 5)


@pytest.mark.parametrize("again", [False, True], ids=["the same object", "another object"])
async def test_the_usage_of_two_runs_in_a_turn_takes_nothing_away(again):
    session = AdvancedDjangoSession("s")
    await session.store_run_usage(await Runner.run(assistant(), "Hello", session=session))
    result = await Runner.run(assistant(), [], session=session)
    await (AdvancedDjangoSession("s") if again else session).store_run_usage(result)

    assert await arun_orm(tokens) == (20, 10)


@pytest.mark.parametrize("keep", [True, False])
async def test_the_usage_of_a_run_whose_items_were_compacted_is_counted_once(keep):
    compaction = Server().compaction(least=1, keep_history=keep)
    session = AdvancedDjangoSession("s", compaction=compaction)
    result = await Runner.run(assistant(), "Hello", session=session)
    assert await arun_orm(tokens) == (110, 15)
    await session.store_run_usage(result)

    assert await arun_orm(tokens) == (110, 15)
    found: Any = await session.get_session_usage()
    assert (found["input_tokens"], found["output_tokens"]) == (110, 15)


def test_a_rewind_and_a_fork_count_no_token_again():
    asyncio.run(Runner.run(assistant(), "a", session=DjangoSession("s")))
    asyncio.run(Runner.run(assistant(), "b", session=DjangoSession("s")))
    store = SessionStore()
    session = store.get("s")
    agent = store.agents.find(session, "default")
    assert agent is not None
    store.branches.rewind(agent, 1)
    assert tokens() == (20, 10)

    fork = store.sessions.fork(session, session_id="t")
    assert (fork.usage.input_tokens, fork.usage.output_tokens) == NONE


async def test_the_figures_of_a_day_know_only_what_was_reported():
    await DjangoSession("s").add_items([user("a")])
    silent = await arun_orm(_total)
    assert (silent.messages, silent.input_tokens, silent.output_tokens) == (1, None, None)

    await Runner.run(assistant(), "Hello", session=DjangoSession("s"))
    total = await arun_orm(_total)
    assert (total.messages, total.input_tokens, total.output_tokens) == (3, 10, 5)


def _total() -> usage.Figures:
    usage.roll_up(until=timezone.now() + timedelta(seconds=1))
    return usage.total(usage.daily(2))


@pytest.mark.parametrize("session_class", [DjangoSession, AdvancedDjangoSession])
async def test_the_keys_of_a_batch_with_usage_have_the_order_of_its_items(session_class):
    first, second = call("add", a=1, b=2), call("add", a=3, b=4)
    await Runner.run(assistant([first, second], "3 and 7"), "Add", session=session_class("s"))

    rows = SessionMessage.objects.order_by("id").values_list("message_id", "output_tokens")
    found = [row async for row in rows]
    assert [position for position, _ in found] == list(range(6))
    assert any(tokens for _, tokens in found)
