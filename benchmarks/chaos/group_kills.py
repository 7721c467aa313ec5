"""``python -m benchmarks.chaos.group_kills``: kills processes whose agents share commits.

Many conversations append at once. Half of the processes are killed at a random moment, the other
half between a group's commit and its acknowledgements. Whatever was acknowledged must be there, in
order and once, and at most one message more of each conversation.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

KINDS = ("store", "openai", "strands")
CONVERSATIONS = 18
PATIENCE = 0.15
"""Seconds that a process lives after its first acknowledgement, at the most."""

Acknowledged = Counter[str]


def kill_writers(times: int, seed: int) -> Acknowledged:
    """Kill so many processes; return how many messages of each session were acknowledged.

    This process has no thread and no connection, because it forks.
    """
    # Imported once, and not by each process.
    import django_agent_sessions.adapters.openai_agents
    import django_agent_sessions.adapters.strands  # noqa: F401 - see above

    chance = random.Random(seed)
    acknowledged: Acknowledged = Counter()
    for run in range(times):
        groups = chance.randrange(1, 10) if run % 2 else None
        acknowledged.update(_kill_one(run, chance.uniform(0, PATIENCE), groups))
    return acknowledged


def _kill_one(run: int, seconds: float, groups: int | None) -> Acknowledged:
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        try:
            asyncio.run(_converse(run, write, groups))
        finally:
            os._exit(1)
    os.close(write)
    with os.fdopen(read) as journal:
        first = journal.readline()
        if groups is None:
            time.sleep(seconds)
            os.kill(child, signal.SIGKILL)
        texts = [first, *journal]
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
        raise RuntimeError("a writer ended by itself")
    # The kill may have cut the last line.
    return Counter(text.partition(".")[0] for text in texts if text.endswith("\n"))


async def _converse(run: int, journal: int, groups: int | None) -> None:
    if groups is not None:
        _die_after(groups)

    async def talk(number: int) -> None:
        session_id = f"kill-{run}-{number}"
        say = await _SAYING[KINDS[number % len(KINDS)]](session_id)
        for count in itertools.count():
            await say(f"{session_id}.{count}")
            os.write(journal, f"{session_id}.\n".encode())

    await asyncio.gather(*map(talk, range(CONVERSATIONS)))


def _die_after(groups: int) -> None:
    """Kill this process after so many commits of groups, before anything is acknowledged."""
    from django_agent_sessions.db import workers

    notify, committed = workers.notify, itertools.count(1)

    def notify_or_die(works: Any) -> None:
        if len(works) > 1 and next(committed) >= groups:
            os.kill(os.getpid(), signal.SIGKILL)
        notify(works)

    workers.notify = notify_or_die


Say = Callable[[str], Awaitable[Any]]


async def _store(session_id: str) -> Say:
    from django_agent_sessions.store import SessionStore

    store = SessionStore()
    agent = await store.agents.aopen(await store.aopen(session_id))
    return lambda text: store.aappend(agent, {"role": "user", "content": text})


async def _openai(session_id: str) -> Say:
    from django_agent_sessions.adapters.openai_agents import DjangoSession

    session = DjangoSession(session_id)
    return lambda text: session.add_items([{"role": "user", "content": text}])


async def _strands(session_id: str) -> Say:
    from benchmarks.stores.strands_agent import AgentConversation, build
    from django_agent_sessions.adapters.strands import DjangoSessionManager

    talk = AgentConversation(build(await DjangoSessionManager.load(session_id)))
    return lambda text: talk.append({"role": "user", "content": [{"text": text}]})


_SAYING: dict[str, Callable[[str], Awaitable[Say]]] = {
    "store": _store,
    "openai": _openai,
    "strands": _strands,
}


def check(acknowledged: Acknowledged) -> int:
    """Raise ``AssertionError`` if a message is lost or doubled; return how many were unheard of."""
    from django_agent_sessions.db.bridge import database
    from django_agent_sessions.models import SessionMessage

    rows: dict[str, list[str]] = {}
    found = SessionMessage.objects.using(database()).filter(session__session_id__startswith="kill-")
    for session_id, position, payload in found.order_by(
        "session__session_id", "message_id"
    ).values_list("session__session_id", "message_id", "message"):
        content = payload["content"]
        text = content if isinstance(content, str) else content[0]["text"]
        rows.setdefault(session_id, []).append(text)
        expected = f"{session_id}.{position}"
        assert text == expected, f"{text} is where {expected} should be"
    unheard = 0
    for session_id in rows.keys() | acknowledged.keys():
        written, heard = len(rows.get(session_id, ())), acknowledged[session_id]
        assert heard <= written <= heard + 1, f"{session_id}: {heard} heard, {written} written"
        unheard += written - heard
    return unheard


def main() -> int:
    """Kills so many processes on a database that is made for it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos.group_kills")
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    arguments = parser.parse_args()
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
    import django

    django.setup()
    from django.db import connections

    from benchmarks import databases

    print(f"{arguments.times} kills on {arguments.database} with seed {arguments.seed} …")
    with databases.prepared(arguments.database):
        connections.close_all()
        acknowledged = kill_writers(arguments.times, arguments.seed)
        unheard = check(acknowledged)
    print(
        f"{acknowledged.total()} messages were acknowledged: all are there once and in order. "
        f"{unheard} more were written, and killed before they were acknowledged."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
