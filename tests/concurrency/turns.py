"""A process whose runs of one session take turns with those of others.

``python -m tests.concurrency.turns strands|openai SESSION many COUNT NUMBER FILE``
``python -m tests.concurrency.turns strands|openai SESSION held SECONDS``, which answers when it is
told to

The model of each run writes down when it began and ended, by a clock that the machine has once.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import django

django.setup()

from django.conf import settings

from django_agent_sessions.exceptions import SessionBusyError

WAIT = 60
Run = Callable[[str], Coroutine[Any, Any, int]]
"""Takes a prompt, and tells how many messages the model was given."""


def strands(session_id: str, during: Callable[[], Awaitable[None]]) -> Run:
    from strands import Agent
    from strands.agent.conversation_manager import NullConversationManager

    from django_agent_sessions.adapters.strands import DjangoSessionManager
    from tests.adapters.strands.scripted import ScriptedModel

    class Model(ScriptedModel):
        async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            await during()
            async for event in super().stream(messages, *args, **kwargs):
                yield event

    model = Model()
    # One agent for all runs: it goes on with what others said meanwhile.
    manager = DjangoSessionManager(session_id, exclusive=True, wait=WAIT)
    agent = Agent(
        model=model,
        session_manager=manager,
        conversation_manager=NullConversationManager(),
        callback_handler=None,
    )

    async def run(prompt: str) -> int:
        await agent.invoke_async(prompt)
        return len(model.requests.pop())

    return run


def openai(session_id: str, during: Callable[[], Awaitable[None]]) -> Run:
    from agents import Agent, RunConfig, Runner

    from django_agent_sessions.adapters.openai_agents import DjangoSession
    from tests.adapters.openai_agents.scripted import ScriptedModel

    class Model(ScriptedModel):
        async def get_response(self, *args: Any, **kwargs: Any) -> Any:
            await during()
            return await super().get_response(*args, **kwargs)

    model = Model()
    session = DjangoSession(session_id, exclusive=True, wait=WAIT)
    quiet = RunConfig(tracing_disabled=True)

    async def run(prompt: str) -> int:
        async with session:
            agent = Agent(name="assistant", model=model)
            await Runner.run(agent, prompt, session=session, run_config=quiet)
        return len(model.requests.pop())

    return run


MAKERS = {"strands": strands, "openai": openai}


async def many(sdk: str, session_id: str, count: int, number: str, file: str) -> None:
    times: list[float] = []

    async def during() -> None:
        times.append(time.monotonic())
        await asyncio.sleep(0.003)
        times.append(time.monotonic())

    run = MAKERS[sdk](session_id, during)
    target = os.open(file, os.O_WRONLY | os.O_APPEND)
    print("ready")
    await asyncio.to_thread(sys.stdin.readline)
    for index in range(count):
        times[:] = [time.monotonic()]
        heard = await run(f"{number}-{index}")
        os.write(target, json.dumps([*times, heard]).encode() + b"\n")


async def held(sdk: str, session_id: str, seconds: float) -> None:
    settings.AGENT_SESSIONS = {"LEASE_SECONDS": seconds}

    async def during() -> None:
        print("ready")
        await asyncio.to_thread(sys.stdin.readline)

    try:
        await MAKERS[sdk](session_id, during)("held")
    except SessionBusyError as error:
        print(type(error).__name__)
    else:
        print("done")


def main(sdk: str, session_id: str, work: str, *arguments: str) -> None:
    if work == "many":
        count, number, file = arguments
        asyncio.run(many(sdk, session_id, int(count), number, file))
    else:
        asyncio.run(held(sdk, session_id, float(arguments[0])))


if __name__ == "__main__":
    main(*sys.argv[1:])
