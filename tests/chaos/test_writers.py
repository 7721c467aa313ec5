"""A writer of the chaos run reports the errors of the store, and makes none itself."""

from __future__ import annotations

import time

import pytest

from benchmarks.chaos.desk import Assignment, Desk
from benchmarks.chaos.history import Outcome, read_journals
from benchmarks.chaos.writers import StoreWriter

pytestmark = pytest.mark.django_db


@pytest.fixture
def writer(tmp_path, monkeypatch):
    desk = Desk(Assignment("store", 1, 0, 5, tmp_path, time.monotonic(), 0))
    monkeypatch.setattr(desk, "shared", lambda sort: "shop")
    return StoreWriter(desk)


def test_a_rewind_reads_the_end_once_because_another_process_may_remove_it(
    writer, tmp_path, monkeypatch
):
    agent = writer.store.agents.open(writer.store.open("shop"))
    monkeypatch.setattr(writer, "_agent", lambda session, sort="": agent)
    writer.store.append(agent, {"role": "user", "content": "Hello."})
    messages = type(writer.store.messages)
    latest = messages.latest

    def read_and_lose(self, *args):
        found = latest(self, *args)
        writer.store.pop(agent)
        return found

    monkeypatch.setattr(messages, "latest", read_and_lose)
    writer.rewind()

    (rewound,) = read_journals(tmp_path.iterdir())
    assert (rewound.outcome, rewound.error) == (Outcome.ACKNOWLEDGED, None)
