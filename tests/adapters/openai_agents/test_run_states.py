"""Runs that wait for a person, kept by the session's own two methods."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import Agent, Runner, UserError, function_tool
from agents.extensions.memory import EncryptedSession

from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession, DjangoSession
from django_agent_sessions.content.dialects import STRANDS
from django_agent_sessions.db.bridge import arun_orm
from django_agent_sessions.exceptions import (
    ConfigurationError,
    SessionNotFoundError,
    UnreadableStateError,
)
from django_agent_sessions.governance.redaction import Find, aredact
from django_agent_sessions.models import SessionAgent
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.store import SessionStore
from django_agent_sessions.testing import columns_containing
from django_agent_sessions.values.records import AgentState

from .held import SECRET
from .scripted import ScriptedModel, call
from .team import assistant, pay, requests, stored, texts

pytestmark = pytest.mark.django_db(transaction=True)

SESSIONS = [DjangoSession, AdvancedDjangoSession]


async def ask(session: Any, *steps: Any) -> Agent[Any]:
    """Runs an agent until it waits for approval to pay."""
    agent = assistant(*(steps or [call("pay", amount=7), "Paid."]))
    result = await Runner.run(agent, "Pay 7", session=session)
    assert await session.save_run_state(result) is True
    return agent


async def approve(session: Any, agent: Agent[Any]) -> str | None:
    state = await session.take_run_state(agent)
    if state is None:
        return None
    for interruption in state.get_interruptions():
        state.approve(interruption)
    result = await Runner.run(agent, state, session=session)
    assert await session.save_run_state(result) is False
    return str(result.final_output)


def agent_state() -> Any:
    return SessionAgent.objects.get().state


@pytest.mark.parametrize("session_class", SESSIONS)
async def test_another_object_resumes_a_run_once(session_class):
    agent = await ask(session_class("s"))
    sessions = [session_class("s") for _ in range(4)]
    answers = await asyncio.gather(*(approve(session, agent) for session in sessions))

    assert sorted(map(str, answers)) == ["None", "None", "None", "Paid."]
    assert texts(await arun_orm(stored)) == ["Pay 7", "call pay", "output paid 7", "Paid."]
    assert await arun_orm(agent_state) == {}


async def test_the_projects_own_state_of_the_agent_is_kept():
    session = DjangoSession("s")
    await session.add_items([{"role": "user", "content": "Hello"}])
    store = SessionStore()
    record: Any = await store.agents.afind(await store.aget("s"), "default")
    await store.agents.aupdate(record, AgentState({"mine": 1}))

    agent = await ask(session)
    assert (await arun_orm(agent_state))["mine"] == 1
    await approve(DjangoSession("s"), agent)
    assert await arun_orm(agent_state) == {"mine": 1}


async def test_a_run_that_ended_replaces_one_that_waited():
    session = DjangoSession("s")
    agent = await ask(session)
    result = await Runner.run(assistant(), "Never mind", session=session)
    assert await session.save_run_state(result) is False
    assert await DjangoSession("s").take_run_state(agent) is None


def rewind() -> None:
    store = SessionStore()
    agent = store.agents.find(store.get("s"), "default")
    assert agent is not None
    store.branches.rewind(agent, 0)


def clear() -> None:
    asyncio.run(DjangoSession("s").clear_session())


def delete() -> None:
    SessionStore().delete("s")


@pytest.mark.parametrize("session_class", SESSIONS)
@pytest.mark.parametrize("meanwhile", [rewind, clear, delete])
async def test_a_run_whose_calls_are_gone_is_not_resumed(session_class, meanwhile):
    agent = await ask(session_class("s"))
    await arun_orm(meanwhile)
    assert await session_class("s").take_run_state(agent) is None
    assert await session_class("s").take_run_state(agent) is None


@pytest.mark.parametrize("session_class", SESSIONS)
@pytest.mark.parametrize("at_end", [True, False])
async def test_a_fork_has_no_waiting_run(session_class, at_end):
    agent = await ask(session_class("s"))
    store = SessionStore()
    record: Any = await store.agents.afind(await store.aget("s"), "default")
    data = AgentState({**record.data.state, "mine": 1})
    await store.agents.aupdate(record, data)
    await store.snapshots.atake(record)
    last = None if at_end else (await store.messages.alist(record))[-1].id
    await session_class("s").add_items([{"role": "user", "content": "later"}])

    fork = await store.sessions.afork(await store.aget("s"), at=last, session_id="fork")

    copy: Any = await store.agents.afind(fork, "default")
    assert copy.data.state == {"mine": 1}
    assert await session_class("fork").take_run_state(agent) is None
    assert await session_class("s").take_run_state(agent) is not None


@pytest.mark.parametrize("session_class", SESSIONS)
async def test_a_restored_snapshot_does_not_bring_back_a_run_that_was_taken(session_class):
    store = SessionStore()
    agent = await ask(session_class("s"))
    record: Any = await store.agents.afind(await store.aget("s"), "default")
    snapshot = await store.snapshots.atake(record)
    assert await approve(session_class("s"), agent) == "Paid."

    await store.snapshots.arestore(record, snapshot.id)

    assert texts(await session_class("s").get_items()) == ["Pay 7", "call pay"]
    assert await arun_orm(agent_state) == {}
    assert await session_class("s").take_run_state(agent) is None


async def test_a_run_that_was_not_taken_waits_after_a_restored_snapshot_and_an_undone_rewind():
    store = SessionStore()
    await DjangoSession("s").add_items([{"role": "user", "content": "Hello"}])
    record: Any = await store.agents.afind(await store.aget("s"), "default")
    before = await store.snapshots.atake(record)
    agent = await ask(DjangoSession("s"))
    waiting = await store.snapshots.atake(record)

    await store.snapshots.arestore(record, before.id)
    await store.snapshots.arestore(record, waiting.id)
    side = await store.branches.arewind(record, 0)
    assert side is not None
    await store.branches.aswitch(record, side.number)

    assert await approve(DjangoSession("s"), agent) == "Paid."


async def test_the_state_of_another_sdks_agent_may_have_any_key():
    store = SessionStore()
    session = await store.aopen("s")
    data = AgentState({"run_state": {"mine": 1}})
    record: Any = await store.agents.aopen(session, dialect=STRANDS, data=data)
    snapshot = await store.snapshots.atake(record)
    await store.agents.aupdate(record, AgentState({}))

    await store.snapshots.arestore(record, snapshot.id)
    fork = await store.sessions.afork(session, session_id="fork")

    for found in (session, fork):
        again: Any = await store.agents.afind(found, "default")
        assert again.data.state == data.state


async def test_an_advanced_session_goes_to_the_branch_of_the_run():
    session = AdvancedDjangoSession("s")
    await Runner.run(assistant("Hi."), "Hello", session=session)
    await session.create_branch_from_turn(1, "other")
    agent = await ask(session)

    again = AdvancedDjangoSession("s")
    assert await approve(again, agent) == "Paid."
    assert texts(await again.get_items())[-1] == "Paid."
    assert texts(await again.get_items(branch_id="main")) == ["Hello", "Hi."]


@pytest.mark.parametrize("argument", ["it", SECRET])
async def test_what_was_redacted_during_the_run_is_not_in_its_state(argument):
    @function_tool
    async def look_up(code: str) -> str:
        """Look something up, while somebody redacts."""
        found = await arun_orm(SessionStore().get, "s")
        await aredact(found.id, Find(SECRET), reason="A request")
        return "found"

    session = DjangoSession("s")
    model = ScriptedModel([call("look_up", code=argument), call("pay", amount=7), "Paid."])
    agent = Agent(name="assistant", model=model, tools=[look_up, pay])
    result = await Runner.run(agent, f"My code is {SECRET}", session=session)
    await session.save_run_state(result)

    assert await arun_orm(columns_containing, "plantedsecret") == []
    if argument == SECRET:
        # The SDK compares the arguments of calls with a digest of them.
        with pytest.raises(UserError, match="does not match"):
            await approve(DjangoSession("s"), agent)
        return
    assert await approve(DjangoSession("s"), agent) == "Paid."
    assert "plantedsecret" not in str(requests(agent)[-1])


async def test_a_state_that_waits_is_redacted_with_the_session():
    agent = await ask(DjangoSession("s"), call("pay", amount=7), "Paid.")
    found = await arun_orm(SessionStore().get, "s")
    await aredact(found.id, Find("Pay 7"), reason="A request")

    assert await arun_orm(columns_containing, "Pay 7") == []
    assert await approve(DjangoSession("s"), agent) == "Paid."
    assert "Pay 7" not in str(requests(agent)[-1])


async def test_a_state_of_an_encrypted_session_is_refused():
    inner: Any = DjangoSession("s")
    session: Any = EncryptedSession("s", inner, encryption_key="a key")
    agent = assistant(call("pay", amount=7))
    result = await Runner.run(agent, "Pay 7", session=session)
    with pytest.raises(ConfigurationError, match="encrypted"):
        await session.save_run_state(result)
    assert await arun_orm(agent_state) == {}


async def test_whose_session_it_is_is_asked_as_for_items(ada, bob):
    def owner(wrapper: Any) -> Any:
        return ada if wrapper is None else wrapper.context

    session = DjangoSession("s", owner=owner)
    agent = assistant(call("pay", amount=7), "Paid.")
    result = await Runner.run(agent, "Pay 7", session=session, context=ada)
    await session.save_run_state(result)

    with pytest.raises(SessionNotFoundError):
        await DjangoSession("s", owner=bob).take_run_state(agent)
    state = await DjangoSession("s", owner=ada).take_run_state(agent, context_override=ada)
    assert state is not None
    assert len(state.get_interruptions()) == 1


async def test_a_run_without_a_session_has_no_place_for_its_state():
    result = await Runner.run(assistant(call("pay", amount=7)), "Pay 7")
    with pytest.raises(SessionNotFoundError):
        await DjangoSession("s").save_run_state(result)


@pytest.mark.parametrize("session_class", SESSIONS)
async def test_a_corrupt_state_is_neither_taken_nor_replaced(session_class):
    session = session_class("s")
    agent = await ask(session)
    corrupt = CorruptPayload('{"plantedsecret')
    await arun_orm(lambda: SessionAgent.objects.update(state=corrupt))

    with pytest.raises(UnreadableStateError, match=r"agent 'default' .*corrupt \(state\)"):
        await session.take_run_state(agent)
    with pytest.raises(UnreadableStateError, match="agent 'default'"):
        await ask(session_class("s"))

    assert await arun_orm(agent_state) == corrupt


async def test_corrupt_names_of_branches_are_not_taken_for_none():
    session = AdvancedDjangoSession("s")
    await session.add_items([{"role": "user", "content": "Hi"}])
    corrupt = CorruptPayload('{"plantedsecret')
    await arun_orm(lambda: SessionAgent.objects.update(internal_state=corrupt))

    with pytest.raises(UnreadableStateError, match=r"corrupt \(internal_state\)"):
        await session.create_branch_from_turn(1, "third")

    assert (await arun_orm(SessionAgent.objects.get)).internal_state == corrupt
