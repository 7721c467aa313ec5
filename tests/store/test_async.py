from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from django_agent_sessions.exceptions import PayloadError, SessionNotFoundError
from django_agent_sessions.models.session_names import SessionName
from django_agent_sessions.store import (
    Agents,
    Branches,
    Messages,
    MultiAgents,
    Sessions,
    SessionStore,
    Snapshots,
    Turns,
)
from django_agent_sessions.values.records import AgentState, Usage


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def public_methods(kind: type) -> dict[str, Callable[..., Any]]:
    return {
        name: function
        for name, function in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }


KINDS = (SessionStore, Sessions, Agents, MultiAgents, Messages, Turns, Branches, Snapshots)
SYNC = [
    pytest.param(kind, name, id=f"{kind.__name__}.{name}")
    for kind in KINDS
    for name, method in public_methods(kind).items()
    if not inspect.iscoroutinefunction(method)
]


@pytest.mark.parametrize("kind", KINDS)
def test_there_is_nothing_async_without_a_sync_twin(kind):
    methods = public_methods(kind)
    twins = {name for name, method in methods.items() if inspect.iscoroutinefunction(method)}

    assert twins == {f"a{name}" for name in methods.keys() - twins}


@pytest.mark.parametrize(("kind", "name"), SYNC)
def test_an_async_twin_takes_and_returns_the_same(kind, name):
    methods = public_methods(kind)

    assert inspect.signature(methods[f"a{name}"]) == inspect.signature(methods[name])
    assert f":meth:`{name}`" in (inspect.getdoc(methods[f"a{name}"]) or "")


async def test_an_async_twin_calls_what_a_subclass_overrides(db):
    class Loud(SessionStore):
        def find(self, session_id: SessionName) -> Any:
            return str(session_id).upper()

    assert str(await Loud().afind("quiet")) == "QUIET"


async def test_every_async_twin_does_what_the_sync_one_does(db):
    store = SessionStore()
    session = await store.aopen("s", title="Plans")
    assert await store.aget("s") == await store.afind("s") == session
    other = await store.acreate("t")
    agent = await store.agents.aopen(session)
    second = await store.agents.acreate(session, "second", data=AgentState(state={"a": 1}))
    assert await store.agents.afind(session, "second") == second
    assert [found.id for found in await store.agents.alist(session)] == [agent.id, second.id]
    await store.agents.aupdate(second, AgentState(state={"a": 2}))
    assert (await store.agents.aopen(session, "second")).data.state == {"a": 2}

    first = await store.aappend(agent, user("a"))
    await store.aappend_many(agent, [user("b"), user("c")])
    assert await store.messages.afind(agent, 0) == first
    assert (
        len(await store.messages.alist(agent, limit=2))
        == len(await store.messages.alatest(agent, 2))
        == 2
    )
    await store.messages.aupdate(agent, 1, user("B"))
    assert await store.messages.aredact(agent, 0, user("[gone]")) == 1
    assert await store.apayloads(agent) == [user("[gone]"), user("B"), user("c")]
    assert await store.messages.anext_position(agent) == 3
    assert await store.apop(agent) == user("c")
    assert [row[0] for row in await store.messages.arestore(agent, offset=1)] == [1]
    await store.atouch(session.id, Usage(0, 10, 5))
    assert await store.sessions.ausage("s") == Usage(2, 10, 5)
    assert await store.aclear(agent) == 2

    await store.multi_agents.acreate(session, "graph", {"a": 1}, kind="graph")
    assert await store.multi_agents.aupdate(session, "graph", {"a": 2})
    graph = await store.multi_agents.afind(session, "graph")
    assert graph is not None
    assert graph.state == {"a": 2}
    assert {found.id for found in await store.sessions.alist()} == {session.id, other.id}
    assert await store.adelete("s") is True
    assert await store.afind("s") is None


async def test_errors_come_through_as_they_are(db):
    store = SessionStore()
    agent = await store.agents.aopen(await store.aopen("s"))

    with pytest.raises(SessionNotFoundError, match="session 'missing' does not exist"):
        await store.aget("missing")
    with pytest.raises(PayloadError, match="neither JSON nor bytes"):
        await store.aappend(agent, object())


def test_under_the_plain_fixture_what_a_loop_wrote_goes_with_the_test(db):
    """A second half of the test below, whichever of them runs first."""
    store = SessionStore()
    assert store.find("left-behind") is None
    asyncio.run(store.aopen("left-behind"))
    assert store.find("left-behind") is not None


async def test_under_the_plain_fixture_an_async_test_leaves_nothing_either(db):
    store = SessionStore()
    assert await store.afind("left-behind") is None
    await store.aopen("left-behind")
    assert await store.afind("left-behind") is not None


@pytest.mark.django_db(transaction=True)
async def test_a_cancelled_append_is_settled_before_the_caller_goes_on(db):
    store = SessionStore()
    agent = await store.agents.aopen(await store.aopen("s"))
    batch = [user(str(number)) for number in range(450)]
    writing = asyncio.create_task(store.aappend_many(agent, batch))
    # One turn of the loop: the work is under way in another thread.
    await asyncio.sleep(0)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing

    # Whole or not at all, and already decided.
    there = len(await store.apayloads(agent))
    assert there in (0, 450)
    await asyncio.sleep(0.1)
    assert len(await store.apayloads(agent)) == there


@pytest.mark.django_db(transaction=True)
async def test_the_loop_goes_on_while_the_database_works(db):
    store = SessionStore()
    agent = await store.agents.aopen(await store.aopen("s"))
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    await store.aappend_many(agent, [user("x" * 1000)] * 450)
    ticking.cancel()

    assert ticks > 10
