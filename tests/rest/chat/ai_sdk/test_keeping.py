"""What a process keeps of answers that are over, and how it hears that it ends."""

from __future__ import annotations

import asyncio
import gc
import weakref
from uuid import uuid4

import pytest

from django_agent_sessions.rest.chat.ai_sdk import run_registry
from django_agent_sessions.rest.chat.ai_sdk.answers import Answer, ReplayBuffer
from django_agent_sessions.rest.chat.ai_sdk.run_registry import Runs
from django_agent_sessions.rest.lifespan import end_answers_at_shutdown


def over(runs, owner=1, size=10, linger=30.0):
    answer = Answer(uuid4(), owner, "m-1", "", None, 0)
    answer.loop, answer.over = asyncio.get_running_loop(), True
    answer.buffer = ReplayBuffer(1000)
    answer.buffer.add(b"x" * size)
    answer.buffer.close()
    runs.ended(answer, linger)
    return answer


def kept(runs, answers):
    return [runs.recent(answer.session) is answer for answer in answers]


def test_of_one_user_only_the_latest_answers_are_kept():
    async def main():
        runs = Runs()
        others = over(runs, owner=2)
        answers = [over(runs) for _ in range(run_registry.MAX_KEPT_PER_USER + 2)]
        assert kept(runs, answers) == [False, False] + [True] * run_registry.MAX_KEPT_PER_USER
        assert kept(runs, [others]) == [True]

    asyncio.run(main())


def test_of_all_answers_only_so_many_bytes_are_kept(monkeypatch):
    monkeypatch.setattr(run_registry, "MAX_KEPT_BYTES", 100)

    async def main():
        runs = Runs()
        answers = [over(runs, owner, size=40) for owner in range(4)]
        assert kept(runs, answers) == [False, False, True, True]

    asyncio.run(main())


def test_an_answer_is_let_go_when_its_time_is_over_and_nobody_asks():
    async def main():
        runs = Runs()
        reference = weakref.ref(over(runs, linger=0.01).buffer)
        while reference() is not None:
            await asyncio.sleep(0.01)
            gc.collect()

    asyncio.run(asyncio.wait_for(main(), 30))


async def refusing(scope, receive, send):
    raise ValueError("Django can only handle ASGI/HTTP connections")


async def silent(scope, receive, send):
    return


def taking_part(heard):
    async def application(scope, receive, send):
        for what in ("startup", "shutdown"):
            heard.append((await receive())["type"])
            await send({"type": f"lifespan.{what}.complete"})

    return application


async def breaking(scope, receive, send):
    await receive()
    raise RuntimeError("no database")


def lifespan(application):
    told = []

    async def main():
        messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

        async def receive():
            return next(messages)

        async def send(message):
            told.append(message["type"])

        await end_answers_at_shutdown(application)({"type": "lifespan"}, receive, send)

    asyncio.run(main())
    return told


@pytest.mark.parametrize("application", [refusing, silent])
def test_a_server_is_answered_for_an_application_that_has_no_lifespan(application):
    assert lifespan(application) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_an_application_that_has_a_lifespan_hears_of_it():
    heard: list[str] = []
    assert lifespan(taking_part(heard)) == [
        "lifespan.startup.complete",
        "lifespan.shutdown.complete",
    ]
    assert heard == ["lifespan.startup", "lifespan.shutdown"]


def test_an_application_that_cannot_start_fails_as_before():
    with pytest.raises(RuntimeError, match="no database"):
        lifespan(breaking)
