"""Appends to several conversations that wait together are one commit, and each its own append."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from django_agent_sessions import arun_orm
from django_agent_sessions.db import write_hooks
from django_agent_sessions.exceptions import (
    LegalHoldError,
    PayloadError,
    SessionConflictError,
    SessionNotFoundError,
    StaleSessionError,
)
from django_agent_sessions.governance.legal_hold import hold
from django_agent_sessions.models import Session
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import AgentRecord, NewMessage, Usage
from django_agent_sessions.values.run_context import SessionWrite, current_run, run_context
from tests.grouping import one_thread, recorded, together

from .cutting import commit_lost, cut, user

__all__ = ["one_thread"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("one_thread")]

groups = pytest.mark.skipif(connection.vendor == "mysql", reason="there each append is a commit")


@pytest.fixture
async def agents(store: SessionStore) -> list[AgentRecord]:
    opened = [await store.aopen(f"s{number}") for number in range(5)]
    return [await store.agents.aopen(session) for session in opened]


def texts(store: SessionStore, agent: AgentRecord) -> list[str]:
    return [message["content"] for message in store.payloads(agent)]


async def all_texts(store: SessionStore, agents: list[AgentRecord]) -> list[list[str]]:
    return [await arun_orm(texts, store, agent) for agent in agents]


async def test_each_append_gets_its_positions_and_counts(store, agents):
    await store.aappend(agents[1], user("before"))

    outcomes = await together(
        store.aappend(agents[0], NewMessage(user("a"), usage=Usage(input_tokens=3))),
        store.aappend_many(agents[1], [user("b"), user("c")]),
        store.aappend(agents[2], user("d"), count=False, epoch=0, expected=0),
    )

    assert outcomes[0].message_id == 0
    assert [record.message_id for record in outcomes[1]] == [1, 2]
    assert outcomes[2].message == user("d")
    assert await all_texts(store, agents[:3]) == [["a"], ["before", "b", "c"], ["d"]]
    counted = [await store.sessions.ausage(f"s{number}") for number in range(3)]
    assert [usage.messages for usage in counted] == [1, 3, 0]
    assert [usage.input_tokens for usage in counted] == [3, None, None]


@groups
async def test_a_group_is_one_commit(store, agents):
    statements: list[str] = []
    appends = [store.aappend(agent, user("a"), count=False) for agent in agents]

    await together(*appends, within=partial(recorded, statements))

    if connection.vendor == "postgresql":
        assert len(statements) == 1
    else:
        assert [sql.split()[0] for sql in statements] == ["BEGIN", *["INSERT"] * len(agents)]
    assert await all_texts(store, agents) == [["a"]] * len(agents)


async def test_an_append_that_waits_alone_is_the_same_as_before(store, agents):
    statements: list[str] = []

    await together(
        store.aappend(agents[0], user("a"), count=False), within=partial(recorded, statements)
    )

    # On MariaDB, Django sets up a connection that it opens.
    (written,) = (sql for sql in statements if not sql.startswith("SET "))
    assert written.startswith(("INSERT", "WITH written", "SELECT"))


async def test_appends_to_a_conversation_stay_in_their_order(store, agents):
    calls = [
        store.aappend(agents[number % 2], user(f"{number}"), count=False) for number in range(20)
    ]

    await together(*calls)

    assert await all_texts(store, agents[:2]) == [
        [f"{number}" for number in range(0, 20, 2)],
        [f"{number}" for number in range(1, 20, 2)],
    ]


async def test_two_agents_of_a_session_in_a_group_are_both_counted(store, agents):
    other = await store.agents.aopen(await store.aget("s0"), "other")

    outcomes = await together(
        store.aappend(agents[0], user("a")),
        store.aappend(other, user("b")),
        store.aappend(agents[1], user("c")),
    )

    assert [record.message_id for record in outcomes] == [0, 0, 0]
    assert (await store.sessions.ausage("s0")).messages == 2


async def test_an_error_of_one_is_not_an_error_of_the_others(store, agents):
    await store.adelete("s3")

    outcomes = await together(
        store.aappend(agents[0], user("a")),
        store.aappend(agents[1], {"role": "user", "content": object()}),
        store.aappend(agents[2], user("b"), epoch=7),
        store.aappend(agents[3], user("c")),
        store.aappend(agents[4], user("d"), expected=5),
        store.aappend(agents[1], user("e")),
    )

    assert [type(outcome) for outcome in outcomes[1:5]] == [
        PayloadError,
        StaleSessionError,
        SessionNotFoundError,
        SessionConflictError,
    ]
    assert [outcomes[0].message_id, outcomes[5].message_id] == [0, 0]
    assert await all_texts(store, agents) == [["a"], ["e"], [], [], []]
    assert (await store.sessions.ausage("s0")).messages == 1


async def test_a_hold_that_is_placed_while_appends_wait_adds_all_and_lets_none_go(store, agents):
    def place_hold(tasks: list[asyncio.Task[Any]]) -> None:
        def work() -> None:
            hold(agents[1].session, reason="a lawsuit")
            connection.close()

        # In a thread with a connection of its own, as another process has.
        thread = threading.Thread(target=work)
        thread.start()
        thread.join(30)

    outcomes = await together(
        *(store.aappend(agent, user("a"), epoch=0) for agent in agents), waiting=place_hold
    )

    assert [record.message_id for record in outcomes] == [0] * len(agents)
    assert await all_texts(store, agents) == [["a"]] * len(agents)
    with pytest.raises(LegalHoldError):
        await store.apop(agents[1])
    assert await store.apop(agents[2]) == user("a")
    assert await all_texts(store, agents[1:3]) == [["a"], []]


async def test_what_the_database_refuses_fails_alone(store, agents):
    taken = NewMessage(user("taken"))
    await store.aappend(agents[0], taken)

    outcomes = await together(
        store.aappend(agents[1], user("a")),
        store.aappend(agents[2], NewMessage(user("b"), id=taken.id)),
        store.aappend(agents[3], user("c")),
    )

    assert isinstance(outcomes[1], SessionConflictError)
    assert await all_texts(store, agents[:4]) == [["taken"], ["a"], [], ["c"]]


@groups
async def test_nothing_is_doubled_or_lost_if_the_answer_to_a_commit_is_lost(store, agents):
    lost: Callable[[], AbstractContextManager[Any]] = (
        commit_lost if connection.vendor == "sqlite" else partial(cut, "WITH wanted", done=True)
    )

    outcomes = await together(
        *(store.aappend_many(agent, [user("a"), user("b")]) for agent in agents), within=lost
    )

    assert [[record.message_id for record in written] for written in outcomes] == [[0, 1]] * 5
    assert await all_texts(store, agents) == [["a", "b"]] * len(agents)
    assert [(await store.sessions.ausage(f"s{n}")).messages for n in range(5)] == [2] * 5


@groups
async def test_nothing_is_lost_if_a_group_never_reached_the_server(store, agents):
    verb = "INSERT" if connection.vendor == "sqlite" else "WITH wanted"

    outcomes = await together(
        *(store.aappend(agent, user("a")) for agent in agents),
        within=partial(cut, verb, done=False),
    )

    assert [record.message_id for record in outcomes] == [0] * 5
    assert await all_texts(store, agents) == [["a"]] * len(agents)


async def test_a_cancelled_append_settles_and_harms_no_other(store, agents):
    calls = [store.aappend(agent, user("a")) for agent in agents[:3]]

    outcomes = await together(*calls, waiting=lambda tasks: tasks[1].cancel())

    # It was cancelled when its outcome was known, which is that it was written.
    assert isinstance(outcomes[1], asyncio.CancelledError)
    assert [outcomes[0].message_id, outcomes[2].message_id] == [0, 0]
    assert await all_texts(store, agents[:3]) == [["a"]] * 3


async def test_receivers_are_called_after_the_commit_in_the_context_of_each(
    store, agents, monkeypatch
):
    heard: list[tuple[Any, str | None, bool, bool]] = []

    def receive(write: SessionWrite) -> None:
        exists = Session.objects.filter(pk=write.session, messages__isnull=False).exists()
        heard.append((write.session, write.run.actor, exists, connection.in_atomic_block))

    monkeypatch.setattr(write_hooks, "receivers", [lambda using: receive])

    async def append(agent: AgentRecord, actor: str) -> None:
        with run_context(actor=actor):
            await store.aappend(agent, user("a"))

    await together(append(agents[0], "ann"), append(agents[1], "bob"), append(agents[2], "cy"))

    assert sorted(heard, key=lambda item: item[1] or "") == [
        (agents[0].session, "ann", True, False),
        (agents[1].session, "bob", True, False),
        (agents[2].session, "cy", True, False),
    ]
    assert current_run().actor is None


@pytest.mark.skipif(connection.vendor != "postgresql", reason="a lock of a row, and a second one")
async def test_a_locked_session_makes_no_other_wait(store, agents, settings):
    settings.AGENT_SESSIONS = {"MAX_CONNECTIONS": 2}
    locked, release = threading.Event(), threading.Event()

    def lock() -> None:
        with transaction.atomic():
            Session.objects.select_for_update().get(pk=agents[0].session)
            locked.set()
            assert release.wait(30)
        connection.close()

    locker = threading.Thread(target=lock)
    locker.start()
    assert locked.wait(30)
    waits = asyncio.ensure_future(store.aappend(agents[0], user("a")))
    others = [asyncio.ensure_future(store.aappend(agent, user("b"))) for agent in agents[1:]]

    await asyncio.wait_for(asyncio.gather(*others), 30)
    assert not waits.done()
    release.set()
    assert (await waits).message_id == 0
    locker.join()

    assert await all_texts(store, agents) == [["a"], *[["b"]] * 4]


async def test_an_append_in_a_transaction_is_rolled_back_with_it(store, agents):
    def roll_back() -> None:
        with transaction.atomic():
            asyncio.run(store.aappend(agents[0], user("a")))
            transaction.set_rollback(True)
        connection.close()

    await together(store.aappend(agents[1], user("b")), store.aappend(agents[2], user("c")))
    await asyncio.to_thread(roll_back)

    assert await all_texts(store, agents[:3]) == [[], ["b"], ["c"]]


class Loud(SessionStore):
    def append_many(self, agent: AgentRecord, messages: Any, **options: Any) -> Any:
        loud = [{**message, "content": message["content"].upper()} for message in messages]
        return super().append_many(agent, loud, **options)


async def test_a_method_of_a_subclass_is_called_in_a_group_too(agents):
    store = Loud()

    await together(*(store.aappend(agent, user("quiet")) for agent in agents))

    assert await all_texts(store, agents) == [["QUIET"]] * len(agents)
