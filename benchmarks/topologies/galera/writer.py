"""A process that writes to one node: ``python -m benchmarks.topologies.galera.writer``.

It goes on until its standard input ends. When a write fails for good, that is noted, and the next
one is tried at the same node, as a client that knows of no other would.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import select
import sys
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import django

django.setup()

import strands

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.adapters.strands import DjangoSessionManager
from django_agent_sessions.store import SessionStore
from example_project.chat.offline import rules
from example_project.chat.offline.strands_model import OfflineStrandsModel

from .journal import Journal, labelled, labels_in

COMMON = "common"
"""The conversation that all writers of the store append to."""
COMMON_ITEMS = "common-items"
"""The one that all sessions of the OpenAI Agents SDK append to."""

Turn = Callable[[str], tuple[str, list[str]]]


def store_turn(name: str) -> Turn:
    """Appends by the store: to the common conversation, and to one of its own."""
    store = SessionStore()
    own = itertools.cycle([COMMON, COMMON, f"store-{name}"])

    def turn(label: str) -> tuple[str, list[str]]:
        session = next(own)
        agent = store.agents.open(store.open(session), dialect="strands")
        store.append(agent, {"role": "user", "content": [{"text": labelled(label)}]})
        return session, [label]

    return turn


def strands_turn(name: str) -> Turn:
    """Restores an agent of Strands and talks to it, as each request of a web site does."""

    def turn(label: str) -> tuple[str, list[str]]:
        session = f"strands-{name}"
        talk(session, f"{label}u")
        return session, [f"{label}u", f"{label}a"]

    return turn


def talk(session: str, label: str) -> int:
    """Restores an agent and says one thing to it.

    Returns:
        How many messages it has then.
    """
    agent = strands.Agent(
        agent_id="default",
        model=OfflineStrandsModel(_answer),
        session_manager=DjangoSessionManager(session),
        conversation_manager=strands.agent.conversation_manager.NullConversationManager(),
        callback_handler=None,
    )
    agent(labelled(label))
    return len(agent.messages)


def openai_turn(name: str) -> Turn:
    """Adds items to a session of the OpenAI Agents SDK: a common one, and one of its own."""
    own = itertools.cycle([COMMON_ITEMS, f"openai-{name}"])

    def turn(label: str) -> tuple[str, list[str]]:
        session = next(own)
        parts = [f"{label}{part}" for part in "ua"]
        items: Any = [
            {"role": role, "content": labelled(part)}
            for role, part in zip(("user", "assistant"), parts, strict=True)
        ]
        asyncio.run(DjangoSession(session).add_items(items))
        return session, parts

    return turn


KINDS: dict[str, Callable[[str], Turn]] = {
    "store": store_turn,
    "strands": strands_turn,
    "openai": openai_turn,
}


def _answer(conversation: Sequence[rules.Turn], tools: Collection[str]) -> rules.Step:
    said = [label for turn in conversation for label in labels_in(turn.text)]
    return labelled(f"{said[-1][:-1]}a")


def _is_over() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def main() -> None:
    """Writes until it is told to end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("name")
    parser.add_argument("journal", type=Path)
    parser.add_argument("pause", type=float)
    given = parser.parse_args()
    journal = Journal(given.journal)
    turn = KINDS[given.kind](given.name)
    draw = random.Random(given.name)
    print("ready", flush=True)
    for number in itertools.count():
        if _is_over():
            break
        label = f"{given.name}:{number}"
        started = time.monotonic()
        try:
            session, labels = turn(label)
        except Exception as error:
            journal.failed("", [label, f"{label}u", f"{label}a"], error)
        else:
            journal.acknowledged(session, labels, time.monotonic() - started)
        time.sleep(draw.uniform(0, 2 * given.pause))


if __name__ == "__main__":
    main()
