"""Spans and metrics of the store's operations."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext
from opentelemetry.trace import StatusCode

from django_agent_sessions import telemetry
from django_agent_sessions.exceptions import SessionConflictError, StaleSessionError
from django_agent_sessions.governance.redaction import WholeMessage, redact
from django_agent_sessions.models import Session
from django_agent_sessions.signals import lease_lost
from django_agent_sessions.store import SessionStore
from django_agent_sessions.telemetry.installation import operations
from django_agent_sessions.timeline import Timeline

pytestmark = pytest.mark.django_db

MESSAGE = {"role": "user", "content": "Hello"}


def values(recorded, metric: str, attribute: str) -> dict:
    """The values of a counter or gauge by an attribute."""
    return {point.attributes[attribute]: point.value for point in recorded.metrics()[metric]}


@pytest.fixture
def store() -> SessionStore:
    return SessionStore(namespace="bot")


@pytest.fixture
def agent(recorded, store):
    session = store.open("user-1")
    found = store.agents.open(session)
    recorded.clear()
    return found


def test_an_append_is_a_span_with_the_ids_and_figures_of_what_was_written(recorded, store, agent):
    store.append_many(agent, [MESSAGE, MESSAGE])
    (span,) = recorded.spans()
    assert span.name == "agent_sessions.append"
    assert span.attributes == {
        "agent_sessions.operation": "append",
        "agent_sessions.session": str(agent.session),
        "agent_sessions.agent": str(agent.id),
        "agent_sessions.agent_id": agent.agent_id,
        "agent_sessions.messages": 2,
        "agent_sessions.bytes": 2 * len('{"role":"user","content":"Hello"}'),
        "agent_sessions.count": 2,
    }


def test_a_restore_is_a_span_whichever_way_an_adapter_reads(recorded, store, agent):
    store.append(agent, MESSAGE)
    recorded.clear()
    store.payloads(agent)
    store.messages.positioned(agent)
    store.messages.restore(agent)
    assert recorded.operations() == ["restore"] * 3
    assert {span.attributes["agent_sessions.count"] for span in recorded.spans()} == {1}


def test_a_session_that_is_opened_has_its_ids(recorded, store):
    store.open("user-2", title="A title")
    (span,) = recorded.spans()
    assert span.name == "agent_sessions.open"
    assert dict(span.attributes) == {
        "agent_sessions.operation": "open",
        "gen_ai.conversation.id": "user-2",
        "agent_sessions.session_id": "user-2",
        "agent_sessions.namespace": "bot",
    }


def test_what_an_operation_calls_has_no_span_of_its_own(recorded, store):
    store.open("user-2")
    store.open("user-2")
    assert recorded.operations() == ["open", "open"]


def test_every_public_method_of_the_store_is_observed(recorded):
    observed = {(part, name) for part, name, _ in operations()}
    for part in (SessionStore, *{part for part, _ in observed}):
        for name, method in vars(part).items():
            public = inspect.isfunction(method) and not name.startswith("_")
            if public and not inspect.iscoroutinefunction(method):
                appends = part is SessionStore and name in ("append", "append_many")
                assert (part, name) in observed or appends, name


@pytest.mark.parametrize("part", ["sessions", "agents", "messages", "branches", "snapshots"])
def test_the_parts_of_the_store_are_observed(part):
    assert any(operation.startswith(f"{part}.") for _, _, operation in operations())


def test_an_error_is_recorded_by_its_type_only(recorded, store, agent, monkeypatch):
    def fail(*args, **kwargs):
        raise DatabaseError("a row with a secret")

    monkeypatch.setattr("django_agent_sessions.store._append.appends.append", fail)
    with pytest.raises(DatabaseError):
        store.append(agent, MESSAGE)
    (span,) = recorded.spans()
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description is None
    assert span.attributes["error.type"] == "DatabaseError"
    assert span.events == ()
    assert "secret" not in recorded.everything()


def test_conflicts_are_counted_by_their_type(recorded, store, agent):
    with pytest.raises(SessionConflictError):
        store.append(agent, MESSAGE, expected=7)
    with pytest.raises(StaleSessionError):
        store.append(agent, MESSAGE, epoch=7)
    lease_lost.send(None, using="default", session=agent.session)
    found = values(recorded, "agent_sessions.conflicts", "error.type")
    assert found == {"SessionConflictError": 1, "StaleSessionError": 1, "LeaseLost": 1}


def test_retries_are_counted_and_on_the_span(recorded, store, agent, monkeypatch):
    from django_agent_sessions.sql import appends

    real, answers = appends.append, [None, None]

    def append(*args, **kwargs):
        return answers.pop() if answers else real(*args, **kwargs)

    monkeypatch.setattr("django_agent_sessions.store._append.appends.append", append)
    store.append(agent, MESSAGE)
    (span,) = recorded.spans()
    assert span.attributes["agent_sessions.retries"] == 2
    (point,) = recorded.metrics()["agent_sessions.retries"]
    assert (point.value, dict(point.attributes)) == (2, {"agent_sessions.reason": "conflict"})


def test_durations_messages_and_bytes_are_measured_without_ids(recorded, store, agent):
    store.append(agent, MESSAGE)
    metrics = recorded.metrics()
    durations = metrics["agent_sessions.operation.duration"]
    counts = {point.attributes["agent_sessions.operation"]: point.count for point in durations}
    assert counts["append"] == 1
    assert [p.value for p in metrics["agent_sessions.messages"]] == [1]
    assert [p.value for p in metrics["agent_sessions.written"]] == [33]
    threads = values(recorded, "agent_sessions.pool.threads", "agent_sessions.state")
    assert threads.keys() == {"idle", "busy"}
    assert [p.value for p in metrics["agent_sessions.pool.waiting"]] == [0]
    for points in metrics.values():
        for point in points:
            assert set(point.attributes) <= {
                "agent_sessions.operation",
                "agent_sessions.reason",
                "agent_sessions.state",
                "error.type",
            }


def test_services_are_spans(recorded, store, agent):
    store.append(agent, MESSAGE)
    store.append(agent, MESSAGE)
    recorded.clear()
    message = store.messages.latest(agent, 1)[0]
    redact(agent.session, WholeMessage(message.id), reason="a request")
    assert recorded.operations() == ["messages.latest", "redact"]
    assert recorded.spans()[-1].attributes["agent_sessions.session"] == str(agent.session)
    recorded.clear()
    store.delete("user-1")
    assert recorded.operations() == ["delete"]


@pytest.mark.django_db(transaction=True)
async def test_appends_of_a_group_are_a_span_each_below_that_of_their_caller(recorded, store):
    agents = []
    for number in range(5):
        session = await store.aopen(f"user-{number}")
        agents.append(await store.agents.aopen(session))
    recorded.clear()

    async def append(number, agent):
        with recorded.tracer.start_as_current_span(f"turn-{number}"):
            await store.aappend(agent, MESSAGE)

    await asyncio.gather(*(append(number, agent) for number, agent in enumerate(agents)))
    parents = {span.context.span_id: span.name for span in recorded.spans()}
    appends = recorded.spans("agent_sessions.append")
    found = {
        (parents[span.parent.span_id], span.attributes["agent_sessions.agent"]) for span in appends
    }
    assert found == {(f"turn-{number}", str(agent.id)) for number, agent in enumerate(agents)}
    (point,) = [
        p
        for p in recorded.metrics()["agent_sessions.operation.duration"]
        if p.attributes["agent_sessions.operation"] == "append"
    ]
    assert point.count == 5


def test_no_statement_is_added(recorded, store, agent):
    def statements() -> list[str]:
        with CaptureQueriesContext(connection) as found:
            store.append(agent, MESSAGE)
            store.open("user-1")
            store.payloads(agent)
            store.messages.positioned(agent)
        return [query["sql"].split()[0] for query in found]

    statements()
    observed = statements()
    telemetry.stop_recording()
    assert observed == statements()


def test_uninstalled_nothing_is_recorded(recorded, store, agent):
    telemetry.stop_recording()
    store.append(agent, MESSAGE)
    store.payloads(agent)
    assert recorded.spans() == []


def test_a_service_and_the_method_that_it_calls_are_one_span(recorded, store, agent):
    for _ in range(3):
        store.append(agent, MESSAGE)
    recorded.clear()
    Timeline(Session.objects.get(pk=agent.session), "desk", store.using).rewind(agent, 1)
    assert recorded.operations() == ["branches.rewind"]
