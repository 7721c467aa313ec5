"""What others deleted while an agent on snapshots runs does not come back."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from strands import Agent
from strands.agent.conversation_manager import (
    SlidingWindowConversationManager,
    SummarizingConversationManager,
)
from strands.types.exceptions import StorageError

from django_agent_sessions.adapters.strands import DjangoStorage
from django_agent_sessions.models import Session, SessionMessage, SessionMultiAgent, StoredObject
from django_agent_sessions.store import SessionStore
from django_agent_sessions.testing.base import rolled_back_transaction
from django_agent_sessions.values.records import AgentRecord
from tests.adapters.strands.agents import texts
from tests.adapters.strands.scripted import Overflow

from .making import LATEST, blob, build, immutable, manager_of, message, run, saved

pytestmark = pytest.mark.django_db(transaction=True)


def head(store: SessionStore) -> AgentRecord:
    found = store.agents.find(store.get("s"), "default")
    assert found is not None
    return found


def pop(store: SessionStore) -> Any:
    return store.pop(head(store))


def pop_and_append(store: SessionStore) -> None:
    store.pop(head(store))
    store.append_many(head(store), [message("by another process"), message("yes", "assistant")])


def clear(store: SessionStore) -> Any:
    return store.clear(head(store))


def delete(store: SessionStore) -> Any:
    return store.delete("s")


def delete_and_begin(store: SessionStore) -> None:
    store.delete("s")
    build("new answer")("new")


def contents() -> list[Any]:
    columns = ("message_id", "branch", "text")
    return list(SessionMessage.objects.order_by("branch", "message_id").values_list(*columns))


def counters() -> list[Any]:
    return list(Session.objects.values_list("message_count", "input_tokens", "output_tokens"))


deletions = pytest.mark.parametrize(
    "remove", [pop, pop_and_append, clear, delete, delete_and_begin]
)


def refused(agent: Agent, prompt: str) -> None:
    with pytest.raises(StorageError, match="again"):
        agent(prompt)


@deletions
@pytest.mark.parametrize("strategy", ["message", "invocation"])
def test_a_running_agent_writes_nothing_back(store, remove, strategy):
    agent = build("a", "b", "c", "d", save_latest_on=strategy)
    agent("one")
    agent("two")
    remove(store)
    before = contents(), counters()

    refused(agent, "three")
    refused(agent, "four")

    assert (contents(), counters()) == before


@deletions
def test_an_agent_that_was_only_read_writes_nothing_back(store, remove):
    build("a")("one")
    agent = build("b", "c")
    remove(store)
    before = contents(), counters()

    refused(agent, "two")

    assert (contents(), counters()) == before


@deletions
def test_a_new_agent_goes_on_with_what_is_left(store, remove):
    agent = build("a", "b", "c")
    agent("one")
    agent("two")
    remove(store)
    refused(agent, "three")
    left = SessionMessage.objects.count()

    again = build("d", "e")
    assert len(again.messages) == left
    again("four")
    again("five")

    assert texts(build().messages) == texts(again.messages)
    assert Session.objects.get().message_count == SessionMessage.objects.count() == left + 4


@deletions
def test_a_new_agent_on_the_same_storage_does_not_hide_it(store, remove):
    storage = DjangoStorage()
    old = build("a", "b", "c", "d", storage=storage)
    old("one")
    old("two")
    remove(store)

    new = build("e", "f", storage=storage)
    refused(old, "three")
    new("four")
    before = contents(), counters()
    refused(old, "five")

    assert (contents(), counters()) == before
    new("six")
    assert texts(build().messages) == texts(new.messages)


def test_an_equal_message_without_an_id_begins_a_new_session(store):
    storage = DjangoStorage()
    run(storage.write(LATEST, saved(message("Hello", tracked=False))))
    store.delete("s")

    assert run(storage.read(LATEST)) is None
    run(storage.write(LATEST, saved(message("Hello", tracked=False))))

    assert contents() == [(0, 0, "Hello")]


def test_another_session_of_the_storage_is_not_affected(store):
    storage = DjangoStorage()
    agent, other = (
        build("a", "b", storage=storage),
        build("c", "d", storage=storage, session_id="t"),
    )
    agent("one")
    other("one")
    store.delete("s")

    refused(agent, "two")
    other("two")

    assert Session.objects.get().session_id == "t"
    assert SessionMessage.objects.count() == 4


def test_after_its_own_deletion_a_session_is_written_again():
    agent = build("a", "b")
    agent("one")
    run(manager_of(agent).delete_session())

    agent("two")

    assert texts(build().messages) == ["one", "a", "two", "b"]


def test_an_owner_who_was_erased_gets_nothing_back():
    ada = User.objects.create_user("ada")
    agent = build("a", "b", storage=DjangoStorage(owner=ada))
    agent("one")
    Session.objects.filter(owner=ada).delete()

    refused(agent, "two")

    assert not Session.objects.exists()


@pytest.mark.parametrize("remove", [pop, clear, delete])
def test_an_agent_with_a_window_writes_nothing_back(store, remove):
    agent = build(*"abcdef", conversation_manager=SlidingWindowConversationManager(window_size=2))
    for prompt in "1234":
        agent(prompt)
    remove(store)
    before = contents()

    refused(agent, "5")

    assert contents() == before


def test_what_an_agent_itself_drops_is_no_deletion():
    manager = SummarizingConversationManager(summary_ratio=0.5, preserve_recent_messages=1)
    agent = build("a", "b", Overflow(), "THE SUMMARY", "c", "d", conversation_manager=manager)
    for prompt in "1234":
        agent(prompt)
    agent.messages[:] = []
    agent("5")

    assert SessionMessage.objects.filter(branch=0).count() == 10


@pytest.mark.parametrize("begin", [False, True])
def test_a_rollback_is_no_deletion(begin: bool):
    agent = build(*"abcd")
    if begin:
        agent("zero")
    with rolled_back_transaction():
        agent("one")
        agent("two")

    agent("three")

    assert texts(build().messages) == texts(agent.messages)


def test_a_deletion_after_a_rollback_is_seen(store):
    agent = build(*"abcd")
    agent("zero")
    with rolled_back_transaction():
        agent("one")
    store.delete("s")

    refused(agent, "two")

    assert not Session.objects.exists()


@pytest.mark.parametrize(
    "key",
    [
        "context/s/scopes/agent/default/call-1_0",
        immutable(1),
    ],
)
def test_an_object_of_a_deleted_session_is_not_written(store, key):
    storage = DjangoStorage()
    build("a", storage=storage)("one")
    run(storage.write(key, b"a large result"))
    store.delete("s")

    with pytest.raises(StorageError, match="the session was deleted"):
        run(storage.write(key, b"a large result"))
    assert not Session.objects.exists()
    assert not StoredObject.objects.exists()

    assert run(storage.read(LATEST)) is None
    run(storage.write(key, b"of a new agent"))
    assert run(storage.read(key)) == b"of a new agent"


def test_an_orchestrator_of_a_deleted_session_is_not_written(store):
    key = "session/s/scopes/multiAgent/graph/snapshots/snapshot_latest.json"
    data = {"orchestrator_id": "graph", "state": {"type": "graph", "done": ["a"]}}
    document = {"scope": "multiAgent", "schema_version": "1.0", "data": data, "app_data": {}}
    storage = DjangoStorage()

    def write() -> None:
        run(storage.write(key, blob(document)))

    write()
    store.delete("s")

    with pytest.raises(StorageError, match="the session was deleted"):
        write()
    assert not Session.objects.exists()

    assert run(storage.read(key)) is None
    write()
    assert SessionMultiAgent.objects.count() == 1
