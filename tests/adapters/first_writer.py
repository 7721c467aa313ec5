"""A process that writes the first message of many sessions, beside others that do the same.

``python -m tests.adapters.first_writer openai|strands COUNT NUMBER``
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

import django

django.setup()

from strands.hooks import MessageAddedEvent
from strands.types.content import Message

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.adapters.strands import DjangoSessionManager
from tests.adapters.strands.agents import build
from tests.store.cutting import user

Write = Callable[[str], Awaitable[None]]


async def of_openai(session_id: str) -> Write:
    session = DjangoSession(session_id)

    async def write(text: str) -> None:
        await session.add_items([user(text)])  # type: ignore[list-item] # a plain dict

    return write


async def of_strands(session_id: str) -> Write:
    agent = build(session_manager=await DjangoSessionManager.load(session_id))

    async def write(text: str) -> None:
        message: Message = {"role": "user", "content": [{"text": text}]}
        agent.messages.append(message)
        await agent.hooks.invoke_callbacks_async(MessageAddedEvent(agent=agent, message=message))

    return write


async def main(kind: str, count: str, number: str) -> None:
    make = {"openai": of_openai, "strands": of_strands}[kind]
    writes = [await make(f"s{each}") for each in range(int(count))]
    print("ready")
    await asyncio.to_thread(sys.stdin.readline)
    for each, write in enumerate(writes):
        text = f"{each}-{number}"
        await write(text)
        print(text)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
