"""A process that has a conversation in memory while another one redacts it.

``python -m tests.adapters.openai_agents.held run|tool|pop``: it says the secret, prints
``ready``, waits for a line, goes on, and prints as JSON what its model heard after that.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import django

django.setup()

from agents import Agent, Runner, function_tool

from django_agent_sessions.adapters.openai_agents import DjangoSession

from .scripted import ScriptedModel, call
from .team import assistant, requests, user

SECRET = "plantedsecret 0815"


async def wait() -> None:
    print("ready")
    await asyncio.to_thread(sys.stdin.readline)


@function_tool
async def look_up(code: str) -> str:
    """Look something up, while somebody redacts."""
    await wait()
    return "found it"


async def run(session: DjangoSession) -> list[Any]:
    agent = assistant(f"I note {SECRET}.", call("add", a=1, b=2), "Three.")
    await Runner.run(agent, f"My code is {SECRET}", session=session)
    await wait()
    await Runner.run(agent, "1 + 2?", session=session)
    return requests(agent)[1:]


async def tool(session: DjangoSession) -> list[Any]:
    model = ScriptedModel([call("look_up", code=SECRET), "Done."])
    agent = Agent(name="assistant", model=model, tools=[look_up])
    await Runner.run(agent, f"Look up {SECRET}", session=session)
    # The run itself goes on with what it had; the next one does not.
    again = assistant()
    await Runner.run(again, "Thanks", session=session)
    return requests(again)


async def pop(session: DjangoSession) -> list[Any]:
    await session.add_items([user("first"), user(f"My code is {SECRET}")])
    items = await session.get_items()
    await wait()
    await session.pop_item()
    await session.add_items([items[-1]])
    return []


async def main(work: str) -> None:
    chosen = {"run": run, "tool": tool, "pop": pop}[work]
    print(json.dumps(await chosen(DjangoSession("s"))))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
