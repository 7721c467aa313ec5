"""Two processes in one conversation at the same time, both with tool calls."""

from __future__ import annotations

import asyncio

import pytest
from strands.hooks import AfterModelCallEvent

from .agents import build, expect_real, stored, texts
from .process import add_then_answer
from .scripted import call

pytestmark = pytest.mark.django_db(transaction=True)


def results(messages: list[str]) -> set[str]:
    return {text for text in messages if text.startswith("result")}


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
