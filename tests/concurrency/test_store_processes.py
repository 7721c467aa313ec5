"""Several processes on one conversation, on the real database."""

from __future__ import annotations

import random
import time
from collections import Counter

import pytest
from django.db import connections

from django_agent_sessions.values.records import Usage
from tests.processes import go, outputs, ready, start

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]

WORKER = "tests.concurrency.worker"


@pytest.fixture
def conversation(store):
    """The one conversation that all write to; this process keeps no lock and no connection."""
    agent = store.agents.open(store.open("shared"))
    connections.close_all()
    return agent


def work_together(work: str, count: int, processes: int) -> list[list[str]]:
    started = [start(WORKER, work, "shared", count, number) for number in range(processes)]
    ready(started)
    go(started)
    return outputs(started)


def said(store, agent) -> list[str]:
    return [message["content"] for message in store.payloads(agent)]


def positions(store, agent) -> list[int]:
    return [record.message_id for record in store.messages.list(agent)]


def test_two_processes_append_200_messages_each(store, conversation):
    work_together("append", 200, 2)

    found = said(store, conversation)
    assert positions(store, conversation) == list(range(400))
    for number in (0, 1):
        own = [text for text in found if text.startswith(f"{number}-")]
        assert own == [f"{number}-{index}" for index in range(200)]
    assert store.sessions.usage("shared") == Usage(400)


def test_two_processes_append_100_batches_each_and_no_batch_is_torn(store, conversation):
    work_together("append-many", 100, 2)

    found = said(store, conversation)
    assert positions(store, conversation) == list(range(1000))
    for first in range(0, 1000, 5):
        batch = found[first].rsplit("-", 1)[0]
        assert found[first : first + 5] == [f"{batch}-{part}" for part in range(5)]
    assert store.sessions.usage("shared") == Usage(1000)


def test_four_processes_pop_100_messages_each_and_none_twice(store, conversation):
    store.append_many(
        conversation, [{"role": "user", "content": str(number)} for number in range(400)]
    )
    connections.close_all()

    taken = work_together("pop", 100, 4)

    assert sorted(int(text) for texts in taken for text in texts) == list(range(400))
    assert said(store, conversation) == []
    assert store.sessions.usage("shared") == Usage(0)


def test_pops_between_appends_of_others_leave_no_gap(store, conversation):
    taken = work_together("append-and-pop", 90, 3)

    assert [len(texts) for texts in taken] == [30] * 3
    found = said(store, conversation)
    assert positions(store, conversation) == list(range(270 - 90))
    gone = [text for texts in taken for text in texts]
    assert sorted(found + gone) == sorted(
        f"{number}-{index}" for number in range(3) for index in range(90)
    )
    assert store.sessions.usage("shared") == Usage(180)


@pytest.mark.parametrize("work", ["append", "append-many"])
def test_what_was_acknowledged_outlives_the_kill_of_its_writer(store, conversation, work):
    chance = random.Random(7)
    acknowledged: Counter[str] = Counter()
    rounds = 0
    # More of them on a slow machine, whose writers are killed before they have said much.
    while rounds < 5 or len(acknowledged) <= 20:
        rounds += 1
        writers = [
            start(WORKER, work, "shared", 1_000_000, f"{rounds}.{number}") for number in range(2)
        ]
        ready(writers)
        go(writers)
        for writer in writers:
            time.sleep(chance.uniform(0.02, 0.2))
            writer.kill()
        for writer in writers:
            out, _ = writer.communicate()
            assert writer.returncode == -9
            # A line that the kill cut off was not read by anybody.
            acknowledged.update(out[: out.rfind("\n") + 1].splitlines())

    # One read: a server may still be busy with what a killed client had sent.
    records = store.messages.list(conversation)
    found = Counter(record.content["content"] for record in records)
    assert all(found[text] == 1 for text in acknowledged)
    assert max(found.values()) == 1
    assert [record.message_id for record in records] == list(range(len(records)))
    # Not acknowledged: at most the last piece of each writer.
    assert len(found) - len(acknowledged) <= 2 * rounds * (5 if work == "append-many" else 1)
    if work == "append-many":
        assert len(records) % 5 == 0
    store.append(conversation, {"role": "user", "content": "goes on"})
    assert "goes on" in said(store, conversation)
