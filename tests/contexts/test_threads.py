"""Threads, loops with many agents, and the bridge's own thread beside them."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import pytest
from django.db import OperationalError, connection, connections, transaction

from django_agent_sessions.db.db_errors import is_conflict
from django_agent_sessions.models import Session
from django_agent_sessions.store import SessionStore

from .chats import said, turns
from .conftest import run_in_thread

pytestmark = pytest.mark.django_db(transaction=True)


def test_eight_threads(sdk):
    """Each with an agent of its own, and with and without a connection of its own."""

    def converse(number: int) -> None:
        try:
            if number % 2:
                Session.objects.count()
            for text in ("one", "two", "three"):
                sdk(f"s-{number}").say(text)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(converse, range(8)))

    assert [said(f"s-{n}") for n in range(8)] == [turns("one", "two", "three")] * 8


def test_eight_threads_each_in_a_transaction_of_its_own(sdk):
    """Each joins its own; half of them roll back."""
    started = threading.Barrier(8, timeout=30)

    def converse(number: int) -> None:
        try:
            # SQLite has one writer at a time: there a transaction waits for the one before.
            if connection.vendor != "sqlite":
                started.wait()
            for _ in range(5):
                try:
                    with transaction.atomic():
                        sdk(f"s-{number}").say("one")
                        sdk(f"s-{number}").say("two")
                        assert said(f"s-{number}") == turns("one", "two")
                        transaction.set_rollback(number % 2 == 1)
                    break
                except OperationalError as error:
                    # On MariaDB a name that was rolled back locks its neighbours; a deadlock is
                    # for whoever began the transaction.
                    if connection.vendor != "mysql" or not is_conflict(error):
                        raise
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(converse, range(8)))

    assert [said(f"s-{n}") for n in range(8)] == [turns("one", "two"), []] * 4


def test_one_agent_called_from_one_thread_after_another(sdk):
    agent = sdk("s")
    for text in ("one", "two", "three"):
        run_in_thread(partial(agent.say, text))

    assert said("s") == turns("one", "two", "three")


def test_fifty_agents_in_one_loop(sdk):
    async def converse(number: int) -> list[str]:
        agent = await sdk.load(f"s-{number}")
        return [await agent.asay(text) for text in ("one", "two")]

    async def main() -> list[list[str]]:
        return await asyncio.gather(*map(converse, range(50)))

    assert asyncio.run(main()) == [["You said: one", "You said: two"]] * 50
    assert [said(f"s-{n}") for n in range(50)] == [turns("one", "two")] * 50


def test_fifty_agents_in_one_loop_in_a_transaction(sdk):
    async def main() -> None:
        agents = await asyncio.gather(*(sdk.load(f"s-{number}") for number in range(50)))
        await asyncio.gather(*(agent.asay("hello") for agent in agents))

    with transaction.atomic():
        asyncio.run(main())
        assert Session.objects.count() == 50
        transaction.set_rollback(True)

    assert Session.objects.count() == 0


async def test_the_loop_goes_on_while_a_statement_waits_for_a_lock(sdk):
    """Another transaction has written to the conversation; the turn waits until its end."""
    agent = await sdk.load("s")
    await agent.asay("one")
    locked, release = threading.Event(), threading.Event()

    def hold() -> None:
        store = SessionStore()
        with transaction.atomic():
            (row,) = store.agents.list(store.get("s"))
            store.append(row, {"role": "user", "content": "undone"})
            locked.set()
            release.wait(20)
            transaction.set_rollback(True)

    holder = threading.Thread(target=run_in_thread, args=(hold,))
    holder.start()
    await asyncio.to_thread(locked.wait, 20)
    threading.Timer(0.5, release.set).start()
    talking = asyncio.create_task(agent.asay("two"))
    ticks = [time.monotonic()]
    while not talking.done():
        await asyncio.sleep(0.01)
        ticks.append(time.monotonic())
    await asyncio.to_thread(holder.join, 20)

    assert await talking == "You said: two"
    assert ticks[-1] - ticks[0] > 0.3
    assert max(b - a for a, b in pairwise(ticks)) < 0.25
    assert await asyncio.to_thread(run_in_thread, lambda: said("s")) == turns("one", "two")
