"""Clients that send the same at one moment, to two processes."""

from __future__ import annotations

import pytest
from django.db import connections

from tests.processes import go, outputs, ready, start
from tests.rest.chat.assistant_ui.conftest import rows, session_of

pytestmark = pytest.mark.process

WORKER = "tests.rest.chat.assistant_ui.worker"
COUNT = 25


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("named", ["named", "unnamed"])
def test_a_thread_that_two_processes_store_at_once_is_stored_once(thread, named):
    connections.close_all()
    workers = [start(WORKER, thread, COUNT, named) for _ in range(2)]
    ready(workers)
    go(workers)

    first, second = outputs(workers)

    found = rows(thread)
    assert first == second == [row.message["id"] for row in found]
    assert [row.message_id for row in found] == list(range(COUNT))
    assert session_of(thread).message_count == COUNT
