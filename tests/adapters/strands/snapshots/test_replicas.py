"""Processes that save one agent at the same time: each message that was acknowledged is kept."""

from __future__ import annotations

import json

import pytest

from django_agent_sessions.adapters.strands import DjangoStorage
from django_agent_sessions.models import Branch, SessionMessage, Snapshot
from tests.adapters.strands.agents import texts
from tests.processes import go, outputs, ready, start

from .making import LATEST, immutable, message, run, saved

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]

MODULE = "tests.adapters.strands.snapshots.process"
TURNS = 4


def test_replicas_lose_nothing():
    run(DjangoStorage().write(LATEST, saved(message("start"))))
    replicas = [start(MODULE, "replica", json.dumps([name])) for name in "xyz"]
    ready(replicas)
    go(replicas)
    acknowledged = {json.loads(lines[-1])["acknowledged"] for lines in outputs(replicas)}
    assert acknowledged == {TURNS}

    branches = [0, *Branch.objects.values_list("number", flat=True)]
    found = []
    for number in branches:
        rows = SessionMessage.objects.filter(branch=number).order_by("message_id")
        positions = list(rows.values_list("message_id", flat=True))
        assert positions == list(range(len(positions)))
        found.append(texts([row.message for row in rows]))
    for name in "xyz":
        whole = ["start", *(f"{name} {turn}" for turn in range(TURNS))]
        assert any(texts[: len(whole)] == whole for texts in found)
    latest = json.loads(run(DjangoStorage().read(LATEST)) or b"")
    assert texts(latest["data"]["messages"]) in found
    assert Snapshot.objects.get().branch == 0


def test_replicas_of_immutable_snapshots_keep_each():
    replicas = [start(MODULE, "checkpoints", json.dumps([number])) for number in range(3)]
    ready(replicas)
    go(replicas)
    outputs(replicas)

    storage = DjangoStorage()
    for number in range(3):
        for turn in range(3):
            found = json.loads(run(storage.read(immutable(10 * number + turn))) or b"")
            said = texts(found["data"]["messages"])
            assert said == [f"{number} {n}" for n in range(turn + 1)]
