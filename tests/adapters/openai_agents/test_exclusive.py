"""Sessions that one run at a time uses."""

from __future__ import annotations

import asyncio

import pytest
from agents import RunConfig, Runner

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.adapters.strands import DjangoSessionManager
from django_agent_sessions.exceptions import (
    ConfigurationError,
    SessionNotFoundError,
)
from django_agent_sessions.testing.exclusive import is_free

from .team import assistant, requests, stored, texts, user

pytestmark = pytest.mark.django_db(transaction=True)

QUIET = RunConfig(tracing_disabled=True)


def exclusive(wait: float = 0.2, **options) -> DjangoSession:
    return DjangoSession("s", exclusive=True, wait=wait, **options)


async def say(text: str, session: DjangoSession, **options):
    agent = assistant(**options)
    async with session:
        await Runner.run(agent, text, session=session, run_config=QUIET)
    return agent


def test_runs_of_several_tasks_take_turns_also_with_one_object():
    async def main():
        shared = exclusive(wait=10)
        sessions = [shared, shared, exclusive(wait=10)]
        runs = (say(str(number), one, delay=0.03) for number, one in enumerate(sessions))
        return await asyncio.gather(*runs)

    agents = asyncio.run(main())

    found = texts(stored())
    assert len(found) == 6
    for prompt, answer in zip(found[::2], found[1::2], strict=True):
        assert answer == f"You said: {prompt}"
    assert sorted(len(requests(agent)[0]) for agent in agents) == [1, 3, 5]


def test_around_run_sync_the_block_is_sync(thread_loop):
    session = exclusive(owner=lambda wrapper: None, wait=0)
    with pytest.raises(ConfigurationError, match="returned None"), session:
        pass
    session = exclusive()
    for text in ("First", "Second"):
        with session:
            Runner.run_sync(assistant(), text, session=session, run_config=QUIET)
    assert len(stored()) == 4


def test_a_streamed_run_is_within_the_block():
    async def main():
        async with exclusive() as session:
            result = Runner.run_streamed(assistant(), "Hello", session=session, run_config=QUIET)
            async for _ in result.stream_events():
                pass

    asyncio.run(main())
    assert texts(stored()) == ["Hello", "You said: Hello"]


@pytest.mark.parametrize(
    "use",
    [
        lambda session: session.get_items(),
        lambda session: session.add_items([user("Hello")]),
        lambda session: session.pop_item(),
        lambda session: session.clear_session(),
        lambda session: session.redact_item(0, "x"),
    ],
)
def test_outside_of_the_block_it_says_how_to_use_it(use):
    with pytest.raises(ConfigurationError, match="async with session"):
        asyncio.run(use(exclusive()))


def test_a_session_that_is_not_exclusive_has_no_block():
    async def main():
        async with DjangoSession("s"):
            pass

    with pytest.raises(ConfigurationError, match="exclusive=True"):
        asyncio.run(main())


def test_a_block_within_a_block_is_the_same_turn():
    async def main():
        async with exclusive(wait=0) as session:
            async with session:
                await session.add_items([user("Inner")])
            assert not await asyncio.to_thread(is_free, "s")
            await session.add_items([user("Outer")])

    asyncio.run(main())
    assert texts(stored()) == ["Inner", "Outer"]
    assert is_free("s")


def test_what_may_not_be_made_or_seen_is_not_held(ada, bob):
    async def enter(session):
        async with session:
            pass

    with pytest.raises(SessionNotFoundError):
        asyncio.run(enter(exclusive(create=False)))
    asyncio.run(enter(exclusive(owner=ada)))
    with pytest.raises(SessionNotFoundError):
        asyncio.run(enter(exclusive(owner=bob)))


def test_an_owner_may_be_found_by_async_code_in_an_async_block_only(ada):
    async def find(wrapper):
        return ada.pk

    asyncio.run(say("Hello", exclusive(owner=find)))
    with pytest.raises(ConfigurationError, match="async with"), exclusive(owner=find):
        pass
    with exclusive(owner=lambda wrapper: ada.pk):
        pass


def test_a_time_to_wait_is_refused_for_a_run_that_is_not_exclusive():
    for make in (DjangoSession, DjangoSessionManager):
        with pytest.raises(ConfigurationError, match="exclusive=True"):
            make("s", wait=5)
