"""A process that makes branches, adds items and stores usage beside others.

``python -m tests.adapters.openai_agents.branch_worker branch|race|churn SESSION COUNT NAME``
"""

from __future__ import annotations

import asyncio
import json
import sys
from types import SimpleNamespace
from typing import Any

import django

django.setup()

from agents import Usage

from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession

from .team import user


def result(tokens: int) -> Any:
    usage = Usage(requests=1, input_tokens=tokens, output_tokens=0, total_tokens=tokens)
    return SimpleNamespace(context_wrapper=SimpleNamespace(usage=usage))


async def branch(session: AdvancedDjangoSession, text: str) -> None:
    """Adds to the main branch, and to a branch of its own whose name is made."""
    await session.switch_to_branch("main")
    await session.add_items([user(f"main {text}")])
    name = await session.create_branch_from_turn(2)
    await session.add_items([user(f"branch {text}")])
    await session.store_run_usage(result(10))
    print(json.dumps([name, text]))


async def race(session: AdvancedDjangoSession, text: str) -> None:
    """Wants a name that the others want, too."""
    name = text.split("-")[1]
    await session.switch_to_branch("main")
    try:
        await session.create_branch_from_turn(2, name)
    except ValueError:
        await session.switch_to_branch(name)
    else:
        print(name)
    await session.add_items([user(text)])


async def churn(session: AdvancedDjangoSession, text: str) -> None:
    """Makes a branch, writes on it and deletes it, so that its number is free again."""
    await session.switch_to_branch("main")
    name = await session.create_branch_from_turn(2, text)
    await session.add_items([user(text), user(text)])
    assert await session.pop_item() == user(text)
    assert await session.get_items() == [user("first"), user(text)]
    await session.delete_branch(name, force=True)
    await session.add_items([user(text)])


async def work(name: str, session_id: str, count: int, prefix: str) -> None:
    do = {"branch": branch, "race": race, "churn": churn}[name]
    session = AdvancedDjangoSession(session_id)
    await session.get_items()
    print("ready")
    await asyncio.to_thread(sys.stdin.readline)
    for number in range(count):
        await do(session, f"{prefix}-{number}")


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]))
