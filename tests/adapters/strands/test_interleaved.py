"""Two processes in one conversation at the same time, both with tool calls."""

from __future__ import annotations

import asyncio
import json

import pytest
from strands.hooks import AfterModelCallEvent

from tests import processes

from .agents import build, expect_real, requests, stored, texts
from .process import add_then_answer
from .scripted import call

pytestmark = pytest.mark.django_db(transaction=True)


def results(messages: list[str]) -> set[str]:
    return {text for text in messages if text.startswith("result")}


@pytest.mark.process
def test_two_processes_keep_every_message_and_every_real_result():
    turns = 4  # All of it fits into Strands' default window.
    started = [
        processes.start(
            "tests.adapters.strands.process",
            "converse",
            json.dumps([str(100 * number + turn) for turn in range(turns)]),
        )
        for number in (1, 2)
    ]
    ended = [json.loads(lines[-1]) for lines in processes.outputs(started)]

    # Strands stands in for a result that another process still waits for. It is not restored.
    said = [text for text in texts(stored()) if "interrupted" not in text]
    assert len(said) == 2 * turns * 4
    again = build("Fine.")
    expect_real(again.messages)
    wanted = {f"result {100 * n + turn + 1000}" for n in (1, 2) for turn in range(turns)}
    assert results(texts(again.messages)) == wanted
    assert sorted(texts(again.messages)) == sorted(said)
    for process in ended:
        assert process["messages"][-1] == "Done."
    again("How are you?")
    assert requests(again)[0][:-1] == [
        {"role": m["role"], "content": m["content"]} for m in again.messages[:-2]
    ]


def test_calls_and_results_that_crossed_are_put_together():
    """Call of one, call of the other, result of one, result of the other."""

    async def cross() -> None:
        called = {"one": asyncio.Event(), "two": asyncio.Event()}

        async def run(name: str, other: str, a: int) -> None:
            agent = build(call("add", a=a, b=0), f"{name} is done.")

            async def meet(event: AfterModelCallEvent) -> None:
                called[name].set()
                await called[other].wait()

            agent.add_hook(meet, AfterModelCallEvent)
            await agent.invoke_async(f"I am {name}")

        await asyncio.gather(run("one", "two", 1), run("two", "one", 2))

    build("Hello.")("Hi")
    asyncio.run(cross())

    at = texts(stored())
    assert at.index("result 1") > at.index("I am two")
    assert at.index("result 2") > at.index("I am one")
    again = build()
    expect_real(again.messages)
    one = ["I am one", "call add", "result 1", "one is done."]
    two = ["I am two", "call add", "result 2", "two is done."]
    assert texts(again.messages) in (["Hi", "Hello.", *one, *two], ["Hi", "Hello.", *two, *one])


def test_an_agent_that_goes_on_holds_its_own_view_and_loses_nobodys():
    one, two = build(choose=add_then_answer), build(choose=add_then_answer)
    for number in range(3):
        one(str(number))
        two(str(10 + number))

    assert results(texts(one.messages)) == {f"result {1000 + n}" for n in range(3)}
    again = build()
    expect_real(again.messages)
    assert len(again.messages) == 24
