"""Runs and writes that are cancelled: what was written is settled when the caller goes on."""

from __future__ import annotations

import asyncio
import random

import pytest
from agents import Runner

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.db.bridge import arun_orm
from django_agent_sessions.testing.cancellation import cancelled_after

from .scripted import call
from .team import assistant, stored, texts, user

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_batch_is_whole_or_absent_and_the_next_read_tells():
    chance = random.Random(11)
    session = DjangoSession("s")
    there: list[str] = []
    cancelled = written = 0
    for number in range(40):
        batch = [f"{number}-{part}" for part in range(5)]
        in_time = await cancelled_after(
            chance.uniform(0, 0.004), session.add_items([user(text) for text in batch])
        )
        found = texts(await session.get_items())
        assert found in (there, there + batch)
        assert in_time or found == there + batch
        cancelled += in_time
        written += found != there
        there = found

    # What was read at once is still all that there is: nothing arrived later.
    await asyncio.sleep(0.05)
    assert texts(await DjangoSession("s").get_items()) == there
    assert cancelled
    assert written


async def test_a_pop_that_is_cancelled_took_its_item_or_did_not():
    chance = random.Random(5)
    session = DjangoSession("s")
    await session.add_items([user(str(number)) for number in range(40)])
    left = 40
    for _ in range(20):
        await cancelled_after(chance.uniform(0, 0.003), session.pop_item())
        found = texts(await session.get_items())
        assert found in (
            [str(number) for number in range(left)],
            [str(number) for number in range(left - 1)],
        )
        left = len(found)


async def test_a_run_that_is_cancelled_leaves_whole_turns():
    # It would take a second at the least.
    agent = assistant(*[call("add", a=1, b=2)] * 100, "Done.", delay=0.01)
    run = Runner.run(agent, "Count", session=DjangoSession("s"), max_turns=200)
    assert await cancelled_after(0.15, run)

    said = texts(await arun_orm(stored))
    assert said[:1] in ([], ["Count"])
    # A call and its output are one turn, and come in one batch.
    assert said[1:] == ["call add", "output 3"] * ((len(said) - 1) // 2)
    await Runner.run(assistant("Going on."), "And now?", session=DjangoSession("s"))
    assert texts(await arun_orm(stored)) == [*said, "And now?", "Going on."]


async def test_a_timeout_leaves_the_connection_usable():
    session = DjangoSession("s")
    await session.add_items([user("a")])
    for number in range(5):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await session.get_items()
        await session.add_items([user(str(number))])

    assert texts(await session.get_items()) == ["a", *"01234"]
