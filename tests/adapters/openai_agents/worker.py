"""A process that works on a conversation beside others.

``python -m tests.adapters.openai_agents.worker pop SESSION COUNT NAME``
``python -m tests.adapters.openai_agents.worker say SESSION TEXT``
``python -m tests.adapters.openai_agents.worker decide SESSION yes|no``, the state on its input
"""

from __future__ import annotations

import asyncio
import json
import sys

import django

django.setup()

from agents import RunConfig, Runner, RunState

from django_agent_sessions.adapters.openai_agents import DjangoSession

from .team import assistant, requests, texts

QUIET = RunConfig(tracing_disabled=True)


async def pop(session: DjangoSession, text: str) -> None:
    item = await session.pop_item()
    assert item is not None
    print(item["content"])  # type: ignore[typeddict-item] # a user's item has it


async def pop_many(session_id: str, count: int, prefix: str) -> None:
    session = DjangoSession(session_id)
    await session.get_items()
    print("ready")
    await asyncio.to_thread(sys.stdin.readline)
    for number in range(count):
        await pop(session, f"{prefix}-{number}")


async def say(session_id: str, text: str) -> None:
    agent = assistant()
    result = await Runner.run(agent, text, session=DjangoSession(session_id), run_config=QUIET)
    print(json.dumps({"heard": texts(requests(agent)[0]), "answered": result.final_output}))


async def decide(session_id: str, approved: bool) -> None:
    """Decides about what waits for approval, and goes on."""
    agent = assistant("Finished.")
    state = await RunState.from_string(agent, sys.stdin.read())
    for interruption in state.get_interruptions():
        (state.approve if approved else state.reject)(interruption)
    session = DjangoSession(session_id)
    result = await Runner.run(agent, state, session=session, run_config=QUIET)
    print(json.dumps({"heard": texts(requests(agent)[0]), "answered": result.final_output}))


def main(name: str, session_id: str, *arguments: str) -> None:
    if name == "say":
        asyncio.run(say(session_id, arguments[0]))
    elif name == "decide":
        asyncio.run(decide(session_id, arguments[0] == "yes"))
    else:
        asyncio.run(pop_many(session_id, int(arguments[0]), arguments[1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
