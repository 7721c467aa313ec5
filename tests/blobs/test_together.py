"""Processes that append, pop, clear, update, redact and read the same images at the same time."""

from __future__ import annotations

import pytest
from django.db import connections

from django_agent_sessions.blobs.garbage_collection import collect
from django_agent_sessions.models import Blob
from tests.processes import go, outputs, ready, start

from .deeds import NONE, expect_clean, message
from .process import PICTURES

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]


def test_every_message_keeps_its_images_and_no_file_is_left_over(store, blob_folder):
    agent = store.agents.open(store.open("shared"), "main", dialect="strands")
    store.append(agent, message("first", PICTURES[0]))
    connections.close_all()
    work = ["append"] * 2 + ["change"] * 2 + ["read"]
    started = [
        start("tests.blobs.process", "together", blob_folder, name, number, 15)
        for number, name in enumerate(work)
    ]
    ready(started)
    go(started)
    assert outputs(started) == [["done"]] * len(work)

    # Without a cleaning up: nobody crashed.
    expect_clean(blob_folder)
    last = message("last", *PICTURES)
    store.append(agent, last)
    assert store.payloads(agent)[-1] == last
    assert Blob.objects.count() == len(PICTURES)
    assert {block["image"]["source"]["bytes"] for payload in store.payloads(agent)
            for block in payload["content"] if "image" in block} == set(PICTURES)  # fmt: skip
    assert collect(older_than=NONE).files == []
