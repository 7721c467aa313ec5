"""A message's external id and author, and the tokens of a prompt cache."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from django_agent_sessions import arun_orm
from django_agent_sessions.exceptions import InvalidIdError, SessionConflictError
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.models.functions import message_count
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import AgentRecord, NewMessage, Usage
from tests.grouping import one_thread, together

__all__ = ["one_thread"]
pytestmark = pytest.mark.django_db(transaction=True)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def keyed(name: str | None, text: str = "hi", **more: Any) -> NewMessage:
    return NewMessage(user(text), external_id=name, **more)


def names(agent: AgentRecord, branch: int = 0) -> list[str | None]:
    rows = SessionMessage.objects.filter(agent=agent.id, branch=branch).order_by("message_id")
    return list(rows.values_list("external_id", flat=True))


def authors(agent: AgentRecord) -> list[str]:
    rows = SessionMessage.objects.filter(agent=agent.id).order_by("message_id")
    return list(rows.values_list("author", flat=True))


CACHED = Usage(1, 100, 20, cache_read_tokens=70, cache_write_tokens=10)


def test_what_is_appended_is_what_is_read(store, agent):
    written = store.append(agent, keyed("m1", author="7", usage=CACHED))

    assert (written.external_id, written.author, written.usage) == ("m1", "7", CACHED)
    assert store.messages.find(agent, 0) == written
    row = SessionMessage.objects.get()
    assert (row.external_id, row.author) == ("m1", "7")
    assert (row.cache_read_tokens, row.cache_write_tokens) == (70, 10)


def test_messages_without_a_key_differ(store, agent):
    store.append_many(agent, [user("a"), user("a"), keyed(None), keyed("m")])

    assert names(agent) == [None, None, None, "m"]


@pytest.mark.parametrize("many", [1, 3])
def test_an_append_with_all_of_them_takes_no_more_statements(store, agent, many):
    store.append(agent, user("warm"))
    with CaptureQueriesContext(connection) as plain:
        store.append_many(agent, [user("a")] * many)
    with CaptureQueriesContext(connection) as whole:
        store.append_many(agent, [keyed(f"m{i}", author="7", usage=CACHED) for i in range(many)])

    assert len(whole) == len(plain)
    # Who does not use them does not pay for them.
    assert "external_id" not in "".join(query["sql"] for query in plain.captured_queries)


def test_tokens_of_a_cache_are_counted_by_message_and_session(store, agent):
    store.append_many(agent, [user("a"), NewMessage(user("b"), usage=CACHED)])
    store.append(agent, NewMessage(user("c"), usage=CACHED))
    store.append(agent, NewMessage(user("d"), usage=Usage(1, 5, 5)))

    spent = store.sessions.usage("session-1")
    assert (spent.input_tokens, spent.output_tokens) == (205, 45)
    assert (spent.cache_read_tokens, spent.cache_write_tokens) == (140, 20)


def test_unreported_tokens_of_a_cache_stay_unknown(store, agent):
    store.append(agent, NewMessage(user("d"), usage=Usage(1, 5, 5)))

    assert store.sessions.usage("session-1").cache_read_tokens is None


def test_the_first_message_of_a_new_session_has_them_too(store):
    agent = store.agents.open(store.open("new"))
    store.append_many(agent, [keyed("m1", usage=CACHED), user("b")])

    assert names(agent) == ["m1", None]
    assert store.sessions.usage("new").cache_write_tokens == 10


@pytest.mark.parametrize("repeated", [["m1"], ["new", "m1"], ["twice", "twice"]])
def test_a_repeated_key_is_refused_and_writes_nothing(store, agent, repeated):
    first = store.append(agent, keyed("m1"))

    with pytest.raises(SessionConflictError, match="same external id") as caught:
        store.append_many(agent, [keyed(name, "secret") for name in repeated])

    assert names(agent) == ["m1"]
    assert "secret" not in str(caught.value)
    assert "twice" in repeated or str(first.id) in str(caught.value)
    assert store.sessions.usage("session-1").messages == 1


def test_a_repeated_key_is_refused_in_a_transaction_that_goes_on(store, agent):
    store.append(agent, keyed("m1"))
    with transaction.atomic():
        with pytest.raises(SessionConflictError), transaction.atomic():
            store.append(agent, keyed("m1"))
        store.append(agent, keyed("m2"))

    assert names(agent) == ["m1", "m2"]


def test_other_agents_and_sessions_may_have_the_same_key(store, agent):
    store.append(agent, keyed("m1"))
    store.append(store.agents.open(store.open("session-1"), "other"), keyed("m1"))
    store.append(store.agents.open(store.open("session-2")), keyed("m1"))

    assert SessionMessage.objects.filter(external_id="m1").count() == 3


def test_the_database_refuses_a_second_message_with_the_key(store, agent):
    store.append_many(agent, [keyed("m1"), user("b"), user("c")])

    with pytest.raises(IntegrityError), transaction.atomic():
        SessionMessage.objects.filter(message_id=1).update(external_id="m1")
    SessionMessage.objects.filter(message_id=1).update(external_id="M1")


@pytest.mark.skipif(connection.vendor == "sqlite", reason="one writer at a time there")
def test_of_writers_at_once_with_one_key_one_writes(store, agent):
    def write(_: int) -> bool:
        try:
            store.append(agent, keyed("m1"))
        except SessionConflictError:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(4) as pool:
        written = list(pool.map(write, range(12)))

    assert sum(written) == 1
    assert names(agent) == ["m1"]


@pytest.mark.parametrize("invalid", ["", " ", "a\x00b", "x" * 300, 7])
def test_an_invalid_key_is_refused(store, agent, invalid):
    with pytest.raises(InvalidIdError, match="external_id"):
        store.append(agent, keyed(invalid))


def test_a_copy_on_another_branch_has_the_key_so_that_a_switch_finds_it(store, agent):
    store.append_many(agent, [keyed("m1", author="7"), keyed("m2"), keyed("m3")])
    side = store.branches.rewind(agent, 0)
    store.append(agent, keyed("m4"))

    assert names(agent) == ["m1", "m4"]
    assert names(agent, side.number) == ["m1", "m2", "m3"]
    assert set(SessionMessage.objects.filter(external_id="m1").values_list("author")) == {("7",)}
    store.branches.switch(agent, side.number)
    assert names(agent) == ["m1", "m2", "m3"]
    # A message and its copies are one.
    assert SessionMessage.objects.aggregate(count=message_count())["count"] == 4


def test_a_message_that_was_rewound_may_be_sent_again(store, agent):
    store.append_many(agent, [keyed("m1"), keyed("m2")])
    store.branches.rewind(agent, 0)
    store.append(agent, keyed("m2", "again"))

    assert names(agent) == ["m1", "m2"]


def test_a_fork_has_the_keys_and_the_authors(store, agent):
    store.append_many(agent, [keyed("m1", author="7", usage=CACHED), keyed("m2")])
    fork = store.sessions.fork(store.open("session-1"), session_id="copy")

    copied = store.agents.open(fork)
    assert names(copied) == ["m1", "m2"]
    records = store.messages.list(copied)
    assert [record.author for record in records] == ["7", ""]
    assert records[0].usage == CACHED


@pytest.mark.usefixtures("one_thread")
async def test_appends_that_are_committed_together_keep_them(store: SessionStore):
    agents = [await store.agents.aopen(await store.aopen(f"s{i}")) for i in range(3)]

    await together(
        store.aappend(agents[0], keyed("m1", author="7", usage=CACHED)),
        store.aappend_many(agents[1], [user("a"), user("b")]),
        store.aappend(agents[2], NewMessage(user("c"), usage=Usage(1, 3, 4))),
    )

    counted = [(await store.sessions.ausage(f"s{i}")) for i in range(3)]
    assert [each.cache_read_tokens for each in counted] == [70, None, None]
    assert [each.input_tokens for each in counted] == [100, None, 3]
    assert [await arun_orm(authors, agent) for agent in agents] == [["7"], ["", ""], [""]]


@pytest.mark.usefixtures("one_thread")
async def test_a_repeated_key_in_a_group_fails_alone(store: SessionStore):
    agents = [await store.agents.aopen(await store.aopen(f"s{i}")) for i in range(2)]
    await store.aappend(agents[0], keyed("m1"))

    outcomes = await together(
        store.aappend(agents[0], keyed("m1")), store.aappend(agents[1], keyed("m1"))
    )

    assert isinstance(outcomes[0], SessionConflictError)
    assert [record.external_id for record in [outcomes[1]]] == ["m1"]
