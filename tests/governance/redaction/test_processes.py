"""Writers in other processes that read the conversation before it was redacted."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection, connections, transaction

from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import Session
from django_agent_sessions.store import SessionStore
from django_agent_sessions.testing import columns_containing, files_containing
from django_agent_sessions.values.records import AgentState
from tests.processes import Process, go, outputs, ready, start

from .planting import SECRET

pytestmark = pytest.mark.django_db(transaction=True)

WORKER = "tests.governance.redaction.worker"
WORKS = ("append", "append-many", "update", "agent", "orchestrator")


@pytest.fixture
def shared(store):
    """A session that holds the secret; this process keeps no lock and no connection."""
    session = store.open("shared", title=SECRET)
    agent = store.agents.open(session, data=AgentState(state={"note": SECRET}))
    store.append(agent, {"role": "user", "content": SECRET})
    store.multi_agents.create(session, "graph", {"note": SECRET})
    connections.close_all()
    return session


def expect_nowhere() -> None:
    # Whoever reads the bytes of a database that its process has open lets go of SQLite's locks.
    connections.close_all()
    assert files_containing(SECRET) == []
    assert columns_containing(SECRET) == []


@pytest.fixture
def writers(shared, other_process) -> Iterator[list[Process]]:
    """Two processes of this test: one that ends too early is no failure of the next test."""
    started = [start(WORKER, "shared") for _ in range(2)]
    yield started
    outputs(started)


def hear(writer: Process) -> str:
    line = writer.stdout.readline()
    assert line, writer.communicate()[1]
    return line.strip()


def read(writers: list[Process], work: str) -> None:
    """Lets them read the session, whose epoch they keep."""
    for writer in writers:
        writer.stdin.write(f"{work}\n")
        writer.stdin.flush()
    ready(writers)


@pytest.mark.parametrize("work", WORKS)
def test_no_writer_with_the_old_epoch_brings_it_back(shared, writers, work):
    """The writers write without a pause, and end by themselves when the epoch has moved."""
    for round_number in range(4):
        read(writers, work)
        go(writers)
        assert [hear(writer) for writer in writers] == ["writing", "writing"]

        done = redact(shared.id, Find(SECRET), reason="r")

        written = [int(hear(writer)) for writer in writers]
        assert min(written) >= 1
        assert done.epoch == round_number + 1
        expect_nowhere()


@pytest.mark.parametrize("work", WORKS)
def test_a_write_that_waits_for_the_redaction_is_refused(shared, writers, work):
    """Its statement was sent before the redaction committed, and saw the old epoch at first."""
    (writer,) = late = writers[:1]
    for _ in range(3):
        read(late, work)
        with transaction.atomic():
            redact(shared.id, Find(SECRET), reason="r")
            go(late)
            expect_waiting()
        assert hear(writer) == "0"
        expect_nowhere()
        # For the next round there is something to find.
        SessionStore().sessions.update(shared.id, title=SECRET)
        connections.close_all()


def test_a_redaction_that_waits_for_a_write_finds_what_it_wrote(shared, store):
    """The write is not committed when the redaction begins."""
    agent = store.agents.find(shared, "default")
    for work in range(3):
        with other_transaction() as commit:
            if work == 0:
                store.append(agent, {"role": "user", "content": SECRET}, epoch=work)
            elif work == 1:
                store.agents.update(agent, AgentState(state={"note": SECRET}), epoch=work)
            else:
                store.multi_agents.update(shared, "graph", {"note": SECRET}, epoch=work)
            thread = threading.Thread(target=redact_in_thread, args=(shared.id,))
            thread.start()
            # SQLite has one writer at a time and nobody whom to ask for the others.
            time.sleep(0.3) if connection.vendor == "sqlite" else expect_waiting()
            commit()
            thread.join(30)
        assert not thread.is_alive()
        assert Session.objects.get(pk=shared.id).redaction_epoch == work + 1
        expect_nowhere()


@contextmanager
def other_transaction():
    atomic = transaction.atomic()
    atomic.__enter__()
    done = False

    def commit() -> None:
        nonlocal done
        done = True
        atomic.__exit__(None, None, None)

    try:
        yield commit
    finally:
        if not done:
            atomic.__exit__(RuntimeError, RuntimeError("not committed"), None)


def redact_in_thread(session) -> None:
    try:
        redact(session, Find(SECRET), reason="r")
    finally:
        connections.close_all()


def expect_waiting() -> None:
    """Waits until another connection waits for a lock; of SQLite's writers nobody can tell."""
    if connection.vendor == "sqlite":
        # The writer runs already, and needs a few milliseconds to get there.
        time.sleep(0.2)
        return
    watching = connection.copy()
    try:
        with watching.cursor() as cursor:
            for _ in range(80):
                cursor.execute(_WAITING[connection.vendor])
                if cursor.fetchone()[0]:
                    return
                # MariaDB repeats its answer to whoever asks again within a tenth of a second.
                time.sleep(0.25)
        raise AssertionError("nobody waits")
    finally:
        watching.close()


_WAITING = {
    "postgresql": "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
    "AND datname = current_database()",
    "mysql": "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'",
}
