"""What others do to a conversation whose snapshots the storage keeps, and the other way round."""

from __future__ import annotations

from typing import Any

import pytest
from strands import Agent
from strands.session import SnapshotSessionManager
from strands.types.exceptions import StorageError

from django_agent_sessions.adapters.strands import DjangoSessionManager, DjangoStorage
from django_agent_sessions.exceptions import SessionConflictError
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import SessionMessage, TurnUsage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import AgentRecord
from tests.adapters.strands.scripted import ScriptedModel

pytestmark = pytest.mark.django_db(transaction=True)


def snapshots() -> Agent:
    manager = SnapshotSessionManager("s", storage=DjangoStorage())
    return Agent(model=ScriptedModel(["yes"] * 9), session_manager=manager, callback_handler=None)


def log() -> Agent:
    manager = DjangoSessionManager("s")
    return Agent(model=ScriptedModel(["yes"] * 9), session_manager=manager, callback_handler=None)


def texts(agent: Agent) -> list[str]:
    return [block["text"] for m in agent.messages for block in m["content"] if "text" in block]


def head() -> AgentRecord:
    store = SessionStore()
    found = store.agents.find(store.get("s"), "default")
    assert found is not None
    return found


@pytest.mark.parametrize("change", ["rewind", "switch", "restore"])
def test_an_agent_that_was_taken_back_must_be_restored_and_undoes_nothing(change):
    store = SessionStore()
    live = snapshots()
    live("one")
    live("two")
    taken = store.snapshots.take(head())
    side = store.branches.rewind(head(), 1)
    assert side is not None
    if change != "rewind":
        live = snapshots()
        live("three")
    if change == "switch":
        store.branches.switch(head(), side.number)
    elif change == "restore":
        store.snapshots.restore(head(), taken.id)
    there = [m["content"] for m in store.payloads(head())]

    with pytest.raises(StorageError, match="restore the agent and try again"):
        live("four")

    assert [m["content"] for m in store.payloads(head())] == there
    again = snapshots()
    again("five")
    assert [m["content"] for m in store.payloads(head())][: len(there)] == there
    assert len(store.payloads(head())) == len(there) + 2


@pytest.mark.parametrize("first", ["redact", "rewind"])
def test_what_was_redacted_and_set_aside_does_not_come_back(first):
    store = SessionStore()
    live = snapshots()
    live("hello")
    live("the secret is 0815-4711")
    deeds = [
        lambda: redact(head().session, Find("0815-4711"), reason="asked"),
        lambda: store.branches.rewind(head(), 1),
    ]
    for deed in deeds if first == "redact" else deeds[::-1]:
        deed()

    with pytest.raises(StorageError):
        live("go on")
    assert not SessionMessage.objects.filter(message__contains="0815-4711").exists()
    assert not SessionMessage.objects.filter(text__contains="0815-4711").exists()


def test_a_conversation_goes_on_from_one_manager_to_the_other_and_back():
    log()("one")
    second = snapshots()
    assert texts(second)[0] == "one"
    second("two")
    third = log()
    assert texts(third) == texts(second)
    third("three")
    fourth = snapshots()
    assert texts(fourth) == texts(third)
    fourth("four")

    fifth = log()
    assert texts(fifth) == texts(fourth)
    assert [text for text in texts(fifth) if text in ("one", "two", "three", "four")] == [
        "one",
        "two",
        "three",
        "four",
    ]
    assert SessionMessage.objects.count() == len(fifth.messages) == 8


def test_a_fork_goes_on_under_a_snapshot_manager():
    store = SessionStore()
    live = snapshots()
    live("one")
    live("two")
    at = SessionMessage.objects.get(message_id=1).pk
    store.sessions.fork(store.get("s"), at=at, session_id="fork")
    manager = SnapshotSessionManager("fork", storage=DjangoStorage())
    other = Agent(model=ScriptedModel(["yes"] * 9), session_manager=manager, callback_handler=None)
    assert other.messages == live.messages[:2]
    other("three")
    live("four")
    assert texts(other)[:1] == texts(live)[:1] == ["one"]
    assert "three" not in texts(live)


def test_a_snapshot_whose_messages_were_taken_away_says_so():
    store = SessionStore()
    snapshots()("one")
    taken = store.snapshots.take(head())
    store.pop(head())
    store.append(head(), {"role": "assistant", "content": [{"text": "another"}]})

    with pytest.raises(SessionConflictError, match="deleted since"):
        store.snapshots.restore(head(), taken.id)


def test_a_branch_that_the_latest_snapshot_is_of_stays(store):
    live = snapshots()
    live("one")
    live("two")
    side = store.branches.rewind(head(), 1)
    assert side is not None
    assert store.branches.delete(head(), side.number) == 4
    assert texts(snapshots())[0] == "one"


def test_what_a_turn_cost_goes_with_its_messages(store):
    snapshots()("one")
    agent = snapshots()
    agent("two")
    found: Any = head()
    for turn in (1, 2):
        TurnUsage.objects.create(
            session_id=found.session, agent_id=found.id, turn=turn, total_tokens=turn * 10
        )
    side = store.branches.rewind(found, 1)
    costs = TurnUsage.objects.values_list("branch", "turn", "total_tokens")
    assert set(costs) == {(0, 1, 10), (side.number, 2, 20)}
