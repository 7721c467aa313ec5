"""While keys change, eight processes write: nothing is lost or doubled, and all stays readable."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections
from django.db.models import Max

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.models import DataKey, Session, Snapshot, StoredPart
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.snapshots import SnapshotStorageStore
from tests.processes import Process, go, outputs, ready, start

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]

SECONDS = float(os.environ.get("ROTATION_SECONDS", "2"))
KEYS = {"one": bytes(range(32)), "two": bytes(range(1, 33))}
WRITERS = ("appends",) * 3 + ("states", "deletions", "openai", "openai", "strands")
OWNED = ("states", "openai")
"""What ada owns; the rest has no owner."""


def options(current: str) -> dict[str, Any]:
    return {"KEYS": {**KEYS, "CURRENT": current}, "CACHE_SECONDS": 0.2}


@pytest.fixture
def writers(ada) -> Iterator[list[Process]]:
    given = options("one")
    given["KEYS"] = {
        name: key if name == "CURRENT" else key.hex() for name, key in given["KEYS"].items()
    }
    SessionStore().open("shared")
    connections.close_all()
    started = [
        start(
            "tests.encryption.writer", kind, number, ada.pk if kind in OWNED else "",
            json.dumps(given),
        )
        for number, kind in enumerate(WRITERS)
    ]  # fmt: skip
    yield started
    for process in started:
        process.kill()


def run(action: str) -> None:
    call_command("agent_sessions_encrypt", action, stdout=StringIO(), stderr=StringIO())


def test_eight_processes_write_while_keys_are_rotated_and_wrapped(writers, settings, ada):
    settings.AGENT_SESSIONS = {"ENCRYPTION": options("one")}
    ready(writers)
    go(writers)
    ends = time.monotonic() + SECONDS
    rounds = 0
    while time.monotonic() < ends or rounds < 2:
        rounds += 1
        run("rotate")
        settings.AGENT_SESSIONS = {"ENCRYPTION": options("two" if rounds % 2 else "one")}
        run("rewrap")
    counts = [int(lines[-1]) for lines in outputs(writers)]
    print(f"{rounds} rotations, pieces written: {dict(enumerate(counts))}")
    assert all(counts)
    # What was written by keys that the writers still had in memory.
    run("encrypt")
    delete_former_keys()

    everything_is_there_once(dict(enumerate(counts)), ada)
    call_command("agent_sessions_check", stdout=StringIO())


def delete_former_keys() -> None:
    newest = DataKey.objects.order_by().values_list("owner").annotate(Max("generation"))
    for owner, generation in list(newest):
        DataKey.objects.filter(owner=owner, generation__lt=generation).delete()
    assert DataKey.objects.count() == 2


def everything_is_there_once(counts: dict[int, int], ada: Any) -> None:
    store, hers = SessionStore(), SessionStore(owner=ada)

    def written(kind: str) -> list[str]:
        numbers = [number for number, each in enumerate(WRITERS) if each == kind]
        return [f"{number}-{count}" for number in numbers for count in range(counts[number])]

    agent = store.agents.open(store.open("shared"))
    said = [message["content"] for message in store.payloads(agent)]
    replaced = [
        text if int(text.partition("-")[2]) % 3 else f"{text}!" for text in written("appends")
    ]
    assert sorted(said) == sorted(replaced)
    assert [record.message_id for record in store.messages.list(agent)] == list(range(len(said)))

    items: Any = asyncio.run(DjangoSession("openai", owner=ada).get_items())
    assert sorted(item["content"] for item in items) == sorted(written("openai"))

    number = WRITERS.index("strands")
    (agent,) = store.agents.list(store.get(f"strands-{number}"))
    assert [m["content"][0]["text"] for m in store.payloads(agent)] == written("strands")

    number = WRITERS.index("states")
    session = hers.get(f"states-{number}")
    (agent,) = hers.agents.list(session)
    assert agent.data.state == {"last": counts[number] - 1}
    data = SnapshotStorageStore(hers).read_object(f"o-{number}")
    assert data == str(counts[number] - 1).encode()
    assert StoredPart.objects.count() == 1
    documents = Snapshot.objects.filter(agent=agent.id).values_list("document", flat=True)
    states = [document["data"]["state"] for document in documents]
    assert states == [{"last": count} for count in range(counts[number])]
    assert not Session.objects.filter(session_id__startswith="gone").exists()
