"""A process that writes to one node: ``python -m benchmarks.topologies.galera.writer``.

It goes on until its standard input ends. When a write fails for good, that is noted, and the next
one is tried at the same node, as a client that knows of no other would.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import select
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import django

django.setup()

from benchmarks.chaos import scripts
from benchmarks.chaos.desk import Assignment, Desk
from benchmarks.chaos.writers import message
from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.store import SessionStore

COMMON = "common"
"""The conversation that all writers of the store append to."""
COMMON_ITEMS = "common-items"
"""The one that all sessions of the OpenAI Agents SDK append to."""

Turn = Callable[[], None]


def store_turn(desk: Desk) -> Turn:
    """Append by the store: to the common conversation, and to one of its own."""
    store = SessionStore()
    own = itertools.cycle([COMMON, COMMON, f"store-{desk.assignment.number}"])

    def turn() -> None:
        session, token = next(own), desk.token()
        with desk.operation("store", session, tokens=[token]):
            store.append(store.agents.open(store.open(session)), message(token))

    return turn


def strands_turn(desk: Desk) -> Turn:
    """Restore an agent of Strands and talk to it, as each request of a web site does."""
    session = f"strands-{desk.assignment.number}"

    def turn() -> None:
        token = desk.token()
        tokens = scripts.tokens_of(token, tool=False)
        with desk.operation("strands", session, tokens=tokens):
            scripts.StrandsAgent(session).say(scripts.said(token, tool=False, secret=None))

    return turn


def openai_turn(desk: Desk) -> Turn:
    """Add items to a session of the OpenAI Agents SDK: a common one, and one of its own."""
    own = itertools.cycle([COMMON_ITEMS, f"openai-{desk.assignment.number}"])

    def turn() -> None:
        session, tokens = next(own), [desk.token(), desk.token()]
        items: Any = [message(token) for token in tokens]
        with desk.operation("openai", session, tokens=tokens, together=True):
            asyncio.run(DjangoSession(session).add_items(items))

    return turn


KINDS: dict[str, Callable[[Desk], Turn]] = {
    "store": store_turn,
    "strands": strands_turn,
    "openai": openai_turn,
}


def main() -> None:
    """Write until it is told to end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("number", type=int)
    parser.add_argument("journals", type=Path)
    parser.add_argument("pause", type=float)
    given = parser.parse_args()
    began = time.monotonic()
    desk = Desk(Assignment(given.kind, given.number, 0, 0, given.journals, began, given.pause))
    turn = KINDS[given.kind](desk)
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        turn()
        time.sleep(desk.chance.uniform(0, 2 * given.pause))


if __name__ == "__main__":
    main()
