"""A process that writes encrypted content until its input ends, and then tells what it wrote.

``python -m tests.encryption.writer KIND NUMBER OWNER OPTIONS``; the owner is a primary key, and the
options are those of the encryption as JSON.
"""

from __future__ import annotations

import asyncio
import json
import select
import sys
from collections.abc import Callable
from typing import Any

import django

django.setup()

from django.test import override_settings

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.snapshots import SnapshotStorageStore
from django_agent_sessions.values.owners import NOBODY
from django_agent_sessions.values.records import AgentState

Write = Callable[[int], None]
"""Writes the n-th piece."""


def appends(number: str, owner: Any) -> Write:
    """Appends to a conversation that others append to, and replaces some messages."""
    store = SessionStore(owner=owner)
    agent = store.agents.open(store.open("shared"))

    def write(count: int) -> None:
        text = f"{number}-{count}"
        written = store.append(agent, {"role": "user", "content": text})
        if count % 3 == 0:
            # Replaced while the keys change.
            store.messages.update(
                agent, written.message_id, {"role": "user", "content": f"{text}!"}
            )

    return write


def states(number: str, owner: Any) -> Write:
    """Replaces a state and an object, and takes snapshots."""
    store = SessionStore(owner=owner)
    session = store.open(f"states-{number}")
    agent = store.agents.open(session)
    objects = SnapshotStorageStore(store)

    def write(count: int) -> None:
        store.agents.update(agent, AgentState({"last": count}))
        objects.write_object(f"o-{number}", str(count).encode(), session=session)
        store.snapshots.take(agent)

    return write


def deletions(number: str, owner: Any) -> Write:
    """Creates sessions and deletes them."""
    store = SessionStore(owner=owner)

    def write(count: int) -> None:
        session = store.open(f"gone-{number}-{count}")
        store.append(store.agents.open(session), {"role": "user", "content": "gone"})
        SnapshotStorageStore(store).write_object(f"gone-{number}", b"x" * 9000, session=session)
        assert store.delete(session.session_id)

    return write


def openai(number: str, owner: Any) -> Write:
    """Adds items by the session of the OpenAI Agents SDK."""
    session = DjangoSession("openai", owner=owner)

    def write(count: int) -> None:
        item: Any = {"role": "user", "content": f"{number}-{count}"}
        asyncio.run(session.add_items([item]))

    return write


def strands(number: str, owner: Any) -> Write:
    """Adds messages by Strands' session manager."""
    from tests.adapters.strands.test_contract import LivingManagerDriver

    driver = LivingManagerDriver(owner, "")

    def write(count: int) -> None:
        driver.append(f"strands-{number}", [driver.payload(f"{number}-{count}")])

    return write


KINDS: dict[str, Callable[[str, Any], Write]] = {
    "appends": appends,
    "states": states,
    "deletions": deletions,
    "openai": openai,
    "strands": strands,
}


def main(kind: str, number: str, owner: str, options: str) -> None:
    given = json.loads(options)
    given["KEYS"] = {
        name: key if name == "CURRENT" else bytes.fromhex(key)
        for name, key in given["KEYS"].items()
    }
    with override_settings(AGENT_SESSIONS={"ENCRYPTION": given}):
        write = KINDS[kind](number, int(owner) if owner else NOBODY)
        print("ready", flush=True)
        sys.stdin.readline()
        count = 0
        while not select.select([sys.stdin], [], [], 0)[0]:
            write(count)
            count += 1
    print(count)


if __name__ == "__main__":
    main(*sys.argv[1:])
