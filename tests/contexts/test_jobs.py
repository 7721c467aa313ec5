"""Background jobs whose worker is killed, and which the queue delivers again."""

from __future__ import annotations

import os
import signal
from uuid import UUID, uuid4

import pytest
from django.db import connections

from django_agent_sessions.models import SessionMessage
from tests.processes import Process, start

from .chats import SDK
from .job import STEPS
from .test_kills import calls, end, hear, stored, tell, texts

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]


def deliver(worker: Process, text: str, job: UUID, stop: str = "-") -> str | None:
    """Runs a job and returns its answer, or None if its worker was killed at the step."""
    tell(worker, f"{text} {job} {stop}")
    child = int(hear(worker))
    answer = hear(worker)
    if answer == stop:
        os.kill(child, signal.SIGKILL)
        assert hear(worker) == "ended"
        return None
    assert answer != "ended", "the job failed"
    assert hear(worker) == "ended"
    return answer


@pytest.mark.parametrize("step", STEPS)
def test_a_job_that_was_killed_and_redelivered_says_its_text_once(sdk: SDK, step: str):
    """Also if another job of the session ran in between, or said the same text."""
    connections.close_all()
    worker = start("tests.contexts.job", sdk.name, "s")
    first, second = uuid4(), uuid4()
    assert deliver(worker, "hello", first, step) is None
    assert deliver(worker, "hello", second) == "answer"
    assert deliver(worker, "hello", first) == "answer"
    # Deliveries whose acknowledgement was lost.
    assert deliver(worker, "hello", first) == "answer"
    assert deliver(worker, "hello", second) == "answer"
    end(worker)

    payloads = stored("s")
    assert texts(payloads)["hello"] == 2
    asked, _ = calls(payloads)
    assert len(asked) == len(set(asked))
    assert SessionMessage.objects.filter(run_id=first, text="hello").count() == 1
    assert SessionMessage.objects.filter(run_id=second, text="hello").count() == 1


def test_a_job_that_was_killed_and_redelivered_goes_on_where_it_was(sdk: SDK):
    connections.close_all()
    worker = start("tests.contexts.job", sdk.name, "s")
    job = uuid4()
    for step in STEPS:
        assert deliver(worker, "hello", job, step) is None
    assert deliver(worker, "hello", job) == "answer"
    end(worker)

    found = texts(stored("s"))
    assert found["hello"] == 1
    assert found["answer"] == 1


def test_a_job_that_was_suspended_while_another_worker_answered_stores_nothing_more(sdk: SDK):
    connections.close_all()
    suspended, other = (start("tests.contexts.job", sdk.name, "s") for _ in range(2))
    job = uuid4()
    tell(suspended, f"hello {job} asked")
    child = int(hear(suspended))
    assert hear(suspended) == "asked"
    os.kill(child, signal.SIGSTOP)
    assert deliver(other, "hello", job) == "answer"
    os.kill(child, signal.SIGUSR1)
    os.kill(child, signal.SIGCONT)
    # It has lost its lease.
    assert [hear(suspended) for _ in range(2)] == ["busy", "ended"]
    end(suspended)
    end(other)

    payloads = stored("s")
    found = texts(payloads)
    assert (found["hello"], found["answer"]) == (1, 1)
    asked, _ = calls(payloads)
    assert len(asked) == 1
