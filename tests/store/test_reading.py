from __future__ import annotations

from uuid import uuid4

import pytest

from django_agent_sessions.models import SessionMessage
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.values.records import AgentState

pytestmark = pytest.mark.django_db


@pytest.fixture
def conversation(store, agent):
    """Ten messages that say their positions, beside another agent's and another session's."""
    store.append_many(store.agents.open(store.open("session-1"), "other"), ["x"] * 3)
    store.append_many(agent, list(range(10)))
    store.append_many(store.agents.open(store.open("session-2")), ["y"] * 3)
    return agent


def contents(records):
    return [record.content for record in records]


def test_messages_are_read_in_pages_from_the_beginning(store, conversation):
    assert contents(store.messages.list(conversation)) == list(range(10))
    assert contents(store.messages.list(conversation, limit=3)) == [0, 1, 2]
    assert contents(store.messages.list(conversation, limit=3, offset=8)) == [8, 9]
    assert contents(store.messages.list(conversation, offset=7)) == [7, 8, 9]
    assert contents(store.messages.list(conversation, offset=10)) == []
    assert contents(store.messages.list(conversation, limit=0)) == []


@pytest.mark.parametrize(
    ("count", "expected"), [(-1, []), (0, []), (3, [7, 8, 9]), (99, list(range(10)))]
)
def test_the_last_messages_are_read_in_order(store, conversation, count, expected):
    assert contents(store.messages.latest(conversation, count)) == expected
    assert store.payloads(conversation, latest=count) == expected


def test_one_message_is_read_by_its_position(store, conversation):
    assert store.messages.find(conversation, 3).content == 3
    assert store.messages.find(conversation, 10) is None


def test_the_next_position_is_behind_all_messages(store, conversation):
    assert store.messages.next_position(conversation) == 10
    SessionMessage.objects.filter(agent=conversation.id, message_id=9).update(
        message=CorruptPayload("{")
    )
    assert (
        store.messages.next_position(conversation) == store.append(conversation, "next").message_id
    )


def test_a_conversation_without_messages(store, agent):
    assert store.messages.next_position(agent) == 0
    assert (
        store.messages.list(agent) == store.payloads(agent) == store.messages.restore(agent) == []
    )
    assert store.messages.latest(agent, 5) == store.payloads(agent, latest=5) == []


def restored(store, agent, **options):
    return [position for position, _, _ in store.messages.restore(agent, **options)]


def test_a_conversation_is_restored_from_an_offset(store, conversation):
    assert store.messages.restore(conversation)[4] == (4, 4, None)
    assert restored(store, conversation) == list(range(10))
    assert restored(store, conversation, offset=7) == [7, 8, 9]
    assert restored(store, conversation, offset=99) == []


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ({"kept": [], "tail": 0}, list(range(10))),
        ({"kept": [], "tail": 8}, [8, 9]),
        ({"kept": [[0, 1], [2, 3]], "tail": 8}, [0, 2, 8, 9]),
        ({"kept": [[0, 1], [2, 3]], "tail": 10}, [0, 2]),
        ({"kept": [], "tail": 10}, []),
    ],
)
def test_a_window_is_restored_as_it_was(store, conversation, window, expected):
    store.agents.update(conversation, AgentState(window=window))
    agent = store.agents.open(store.open("session-1"))

    assert restored(store, agent) == restored(store, agent, offset=5) == expected


def test_runs_that_interleaved_are_restored_one_after_the_other(store, agent):
    one, two = uuid4(), uuid4()
    said = [
        ("before", None),
        ("one asks", one),
        ("two asks", two),
        ("one calls", one),
        ("two calls", two),
        ("one's result", one),
        ("between", None),
        ("two's result", two),
        ("two answers", two),
        ("one answers", one),
        ("after", None),
    ]
    for text, run_id in said:
        store.append(agent, text, run_id=run_id)

    assert [row[1] for row in store.messages.restore(agent)] == [
        "before",
        "one asks",
        "one calls",
        "one's result",
        "one answers",
        "two asks",
        "two calls",
        "two's result",
        "two answers",
        "between",
        "after",
    ]
    assert store.payloads(agent) == [text for text, _ in said]
