"""Runs that wait for a person, are put away, and go on in another process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import RunContextWrapper, Runner, RunState, TResponseInputItem

from django_agent_sessions.adapters.openai_agents import DjangoSession

from .others import in_another_process
from .scripted import call
from .team import assistant, requests, stored, texts

pytestmark = pytest.mark.django_db(transaction=True)


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


@pytest.mark.parametrize("decision", ["yes", "no"])
def test_another_process_goes_on_and_nothing_is_doubled(decision):
    other = in_another_process("decide", "s", decision, given=interrupted())

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
    other = in_another_process("decide", "s", "yes", given=unsettled)

    assert other["answered"] == "Finished."
    assert "output paid 7" in expect_whole()
