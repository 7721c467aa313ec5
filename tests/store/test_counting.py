"""What is written and what is counted are one commit, whoever meets whom."""

from __future__ import annotations

import threading

import pytest
from django.db import connections

from django_agent_sessions.exceptions import SessionConflictError, StaleSessionError
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.values.records import NewMessage

pytestmark = pytest.mark.django_db(transaction=True)


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def test_writers_who_meet_count_each_message_once(store, session):
    agents = [store.agents.open(session, name) for name in ("a", "a", "b")]

    def write(number: int) -> None:
        try:
            for turn in range(10):
                store.append(agents[number], user(f"{number}-{turn}"))
                store.append_many(agents[number], [user(f"{number}-{turn}")] * 2)
        finally:
            connections.close_all()

    writers = [threading.Thread(target=write, args=(number,)) for number in range(len(agents))]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)

    assert store.sessions.usage(session.session_id).messages == 90
    assert [m.message_id for m in store.messages.list(agents[0])] == list(range(60))
    assert [m.message_id for m in store.messages.list(agents[2])] == list(range(30))


@pytest.mark.parametrize("count", [1, 2])
def test_what_is_not_written_is_not_counted(store, session, agent, count):
    with pytest.raises(SessionConflictError):
        store.append_many(agent, [user("a")] * count, expected=7)
    with pytest.raises(StaleSessionError):
        store.append_many(agent, [user("a")] * count, epoch=7)

    assert store.sessions.usage(session.session_id).messages == 0
    assert store.payloads(agent) == []


def test_what_was_written_by_an_earlier_try_is_not_counted_again(store, session, agent):
    first, second = NewMessage(user("a")), NewMessage(user("b"))
    store.append(agent, first)

    store.append_many(agent, [first, second], again=True)

    assert store.sessions.usage(session.session_id).messages == 2
    assert store.payloads(agent) == [user("a"), user("b")]


def test_a_batch_takes_every_character_there_is(store, agent):
    batch = [
        user(text)
        for text in ('"', "\\", '\\"', "{NULL}", "NULL", "", ",\n\t\x1e", "\x00", "\ud800", "’😀")
    ]
    batch.append({"role": "assistant", "content": None})

    store.append_many(agent, batch)

    assert store.payloads(agent) == batch
    assert [row.text for row in rows(agent)][:4] == ['"', "\\", '\\"', "{NULL}"]


def rows(agent):
    return list(SessionMessage.objects.conversation(agent.id, 0).order_by("message_id"))
