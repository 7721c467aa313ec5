"""Runs that wait for a person, are put away, and go on in another process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from agents import RunContextWrapper, Runner, RunState, TResponseInputItem

from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession, DjangoSession
from django_agent_sessions.store import SessionStore
from tests.adapters.processes import result_of

from .scripted import call
from .team import assistant, requests, stored, texts

pytestmark = pytest.mark.django_db(transaction=True)

WORKER = "tests.adapters.openai_agents.worker"


def interrupted() -> str:
    """Runs until the tool ``pay`` waits for approval, and returns the serialised state."""
    agent = assistant([call("add", a=1, b=2), call("pay", amount=7)])
    result = asyncio.run(Runner.run(agent, "Pay 7", session=DjangoSession("s")))
    assert [item.tool_name for item in result.interruptions] == ["pay"]
    return result.to_state().to_string()


def call_ids(kind: str) -> list[str]:
    return sorted(item["call_id"] for item in stored() if item.get("type") == kind)


def expect_whole() -> list[str]:
    """Checks that each call is there once with one output; returns what was said."""
    calls = call_ids("function_call")
    assert len(set(calls)) == len(calls) == 2
    assert call_ids("function_call_output") == calls
    said = texts(stored())
    assert (said[0], said[-1]) == ("Pay 7", "Finished.")
    assert len(said) == 6
    return said


@pytest.mark.process
@pytest.mark.parametrize("decision", ["yes", "no"])
def test_another_process_goes_on_and_nothing_is_doubled(decision):
    other = result_of(WORKER, "decide", "s", decision, given=interrupted())

    assert other["answered"] == "Finished."
    said = expect_whole()
    assert "output 3" in said
    assert ("output paid 7" in said) is (decision == "yes")
    # The model heard the same as the next turn will.
    assert sorted(other["heard"]) == sorted(said[:-1])
    again = assistant()
    asyncio.run(Runner.run(again, "Thanks", session=DjangoSession("s")))
    assert texts(requests(again)[0]) == [*said, "Thanks"]


class Unlucky(DjangoSession):
    """Breaks off at its first write, as a process that is killed there does."""

    def __init__(self, session_id: str, *, written: bool) -> None:
        super().__init__(session_id)
        self.written = written

    async def add_items(
        self,
        items: list[TResponseInputItem],
        *,
        wrapper: RunContextWrapper[Any] | None = None,
    ) -> None:
        if self.written:
            await super().add_items(items, wrapper=wrapper)
        raise ConnectionError("the answer did not arrive")


@pytest.mark.process
@pytest.mark.parametrize("written", [True, False])
def test_another_process_settles_a_write_whose_outcome_is_unknown(written):
    agent = assistant("Finished.")

    async def resume() -> str:
        state = await RunState.from_string(agent, waiting)
        for interruption in state.get_interruptions():
            state.approve(interruption)
        with pytest.raises(ConnectionError):
            await Runner.run(agent, state, session=Unlucky("s", written=written))
        return state.to_string()

    waiting = interrupted()
    before = stored()
    unsettled = asyncio.run(resume())
    assert (len(stored()) > len(before)) is written

    # The SDK compares the tail of the conversation with what it wanted to write.
    other = result_of(WORKER, "decide", "s", "yes", given=unsettled)

    assert other["answered"] == "Finished."
    assert "output paid 7" in expect_whole()


def go_back() -> None:
    store = SessionStore()
    agent = store.agents.find(store.get("s"), "default")
    assert agent is not None
    store.branches.rewind(agent, 0)


def clear() -> None:
    asyncio.run(DjangoSession("s").clear_session())


def delete() -> None:
    assert SessionStore().delete("s")


async def approve(agent: Any, waiting: str, session: DjangoSession) -> None:
    state = await RunState.from_string(agent, waiting)
    for interruption in state.get_interruptions():
        state.approve(interruption)
    await Runner.run(agent, state, session=session)


@pytest.mark.parametrize("session_class", [DjangoSession, AdvancedDjangoSession])
@pytest.mark.parametrize("meanwhile", [go_back, clear, delete])
def test_a_conversation_goes_on_from_which_the_calls_were_gone_when_they_were_answered(
    meanwhile: Callable[[], None], session_class: type[DjangoSession]
):
    """The API refuses all of a conversation in which a result answers no call."""
    waiting = interrupted()
    meanwhile()
    asyncio.run(approve(assistant("Finished."), waiting, session_class("s")))
    again = assistant("You are welcome.")
    asyncio.run(Runner.run(again, "Thanks", session=session_class("s")))

    # Nothing was taken away: who reads outside of a run gets all of it.
    there: Any = asyncio.run(session_class("s").get_items())
    assert "function_call" not in [item.get("type") for item in there]
    assert "output paid 7" in texts(there)
    valid = [said for said in texts(there) if not said.startswith("output")]
    assert [*texts(requests(again)[0]), "You are welcome."] == valid


def test_a_run_on_a_branch_that_goes_on_on_the_main_one_breaks_neither():
    on_branch = AdvancedDjangoSession("s")
    asyncio.run(Runner.run(assistant("Hi."), "Hello", session=on_branch))
    asyncio.run(on_branch.create_branch_from_turn(1, "other"))
    result = asyncio.run(Runner.run(assistant(call("pay", amount=7)), "Pay 7", session=on_branch))
    waiting = result.to_state().to_string()

    asyncio.run(approve(assistant("Finished."), waiting, AdvancedDjangoSession("s")))

    for session in (on_branch, AdvancedDjangoSession("s")):
        agent = assistant("Good.")
        asyncio.run(Runner.run(agent, "Thanks", session=session))
        assert not [said for said in texts(requests(agent)[0]) if said.startswith("output")]


def test_results_of_calls_that_only_the_provider_knows_are_given_to_a_run():
    result: Any = {"type": "function_call_output", "call_id": "c", "output": "3"}
    asyncio.run(DjangoSession("s").add_items([{"type": "item_reference", "id": "fc"}, result]))

    agent = assistant()
    asyncio.run(Runner.run(agent, "Thanks", session=DjangoSession("s")))

    assert result in requests(agent)[0]
