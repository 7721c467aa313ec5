"""Several appends in one transaction, where an error of one is not an error of the others."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_agent_sessions.exceptions import (
    AgentSessionsError,
    PayloadError,
    SessionConflictError,
    SessionNotFoundError,
    StaleSessionError,
)
from django_agent_sessions.models import Session, SessionAgent
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import AgentRecord, Append, NewMessage

pytestmark = pytest.mark.django_db(transaction=True)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.fixture
def agents(store: SessionStore) -> list[AgentRecord]:
    return [store.agents.open(store.open(f"s{number}")) for number in range(3)]


def test_each_append_is_written_to_its_conversation(store, agents):
    results = store.write_batch(
        [
            Append(agents[2], [user("c1"), user("c2")]),
            Append(agents[0], [user("a1")]),
            Append(agents[1], []),
            Append(agents[2], [user("c3")]),
        ]
    )

    assert [[record.message_id for record in written] for written in results] == [
        [0, 1],
        [0],
        [],
        [2],
    ]
    assert [store.payloads(agent) for agent in agents] == [
        [user("a1")],
        [],
        [user("c1"), user("c2"), user("c3")],
    ]
    assert [store.sessions.usage(f"s{number}").messages for number in range(3)] == [1, 0, 3]


def test_a_batch_is_one_transaction(store, agents):
    with CaptureQueriesContext(connection) as captured:
        store.write_batch([Append(agent, [user("a")]) for agent in agents])

    statements = [query["sql"] for query in captured.captured_queries]
    assert sum(sql.startswith("COMMIT") for sql in statements) <= 1
    assert sum(sql.startswith("BEGIN") for sql in statements) <= 1
    assert sum("INSERT" in sql for sql in statements) == 3


@pytest.mark.parametrize("within", ["autocommit", "atomic"])
def test_errors_are_isolated(store, agents, within):
    other = store.agents.open(store.open("deleted"))
    store.delete("deleted")

    def write() -> Any:
        return store.write_batch(
            [
                Append(agents[0], [user("a1")]),
                Append(agents[0], [object()]),
                Append(agents[0], [user("a2")], expected=7),
                Append(agents[1], [user("b1")], epoch=5),
                Append(other, [user("x")]),
                Append(agents[2], [user("c1"), user("c2")]),
                Append(agents[0], [user("a3")]),
            ]
        )

    if within == "atomic":
        with transaction.atomic():
            results = write()
    else:
        results = write()

    kinds = [type(result) if isinstance(result, Exception) else list for result in results]
    assert kinds == [
        list,
        PayloadError,
        SessionConflictError,
        StaleSessionError,
        SessionNotFoundError,
        list,
        list,
    ]
    assert [store.payloads(agent) for agent in agents] == [
        [user("a1"), user("a3")],
        [],
        [user("c1"), user("c2")],
    ]


def test_one_append_is_a_batch_of_one(store, agents):
    message = NewMessage(user("a"))
    ((first,),) = store.write_batch([Append(agents[0], [message], run_id=UUID(int=7))])

    ((again,),) = store.write_batch([Append(agents[0], [message], again=True)])

    assert again.message_id == first.message_id == 0
    assert first.run_id == UUID(int=7)
    assert store.payloads(agents[0]) == [user("a")]


def test_a_large_append_keeps_its_place_in_its_conversation(store, agents):
    many = [user(str(number)) for number in range(450)]

    store.write_batch(
        [Append(agents[0], many), Append(agents[0], [user("last")]), Append(agents[1], [user("b")])]
    )

    assert store.payloads(agents[0]) == [*many, user("last")]
    assert store.payloads(agents[1]) == [user("b")]


async def test_the_async_twin_does_the_same(store):
    agent = await store.agents.aopen(await store.aopen("s"))

    results = await store.awrite_batch([Append(agent, [user("a")]), Append(agent, [user("b")])])

    assert not any(isinstance(result, AgentSessionsError) for result in results)
    assert await store.apayloads(agent) == [user("a"), user("b")]


def test_a_batch_that_the_caller_rolls_back_leaves_nothing(store, agents):
    with transaction.atomic():
        store.write_batch([Append(agent, [user("a")]) for agent in agents])
        transaction.set_rollback(True)

    assert [store.payloads(agent) for agent in agents] == [[], [], []]
    assert SessionAgent.objects.count() == Session.objects.count() == 3
