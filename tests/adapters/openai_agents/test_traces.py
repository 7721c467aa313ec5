"""The session's ids on the SDK's own traces and spans."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import agents
import pytest
from agents import RunConfig, Runner
from agents.tracing import TracingProcessor, get_trace_provider, set_trace_provider, trace
from agents.tracing.provider import DefaultTraceProvider

from django_agent_sessions.adapters.openai_agents import DjangoSession, trace_config

from .scripted import ScriptedModel, call

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "plantedsecret"


class Memory(TracingProcessor):
    """Keeps what the SDK traces."""

    def __init__(self) -> None:
        self.traces: list[Any] = []
        self.spans: list[Any] = []

    def on_trace_start(self, trace: Any) -> None:
        pass

    def on_trace_end(self, trace: Any) -> None:
        self.traces.append(trace)

    def on_span_start(self, span: Any) -> None:
        pass

    def on_span_end(self, span: Any) -> None:
        self.spans.append(span)

    def shutdown(self) -> None:
        pass

    def force_flush(self) -> None:
        pass


@pytest.fixture
def traced():
    """What the SDK traces in the test, instead of sending it."""
    before, provider, memory = get_trace_provider(), DefaultTraceProvider(), Memory()
    provider.register_processor(memory)
    provider.set_disabled(False)
    set_trace_provider(provider)
    yield memory
    set_trace_provider(before)


@agents.function_tool
def look_up(city: str) -> str:
    """Looks up a city."""
    return f"{city} is fine"


def run(session: DjangoSession, config: RunConfig) -> None:
    model = ScriptedModel([call("look_up", city="Lisbon"), "Done."])
    agent = agents.Agent("helper", model=model, tools=[look_up])
    asyncio.run(Runner.run(agent, f"Who is {SECRET}?", session=session, run_config=config))


def session_of(name: str = "user-1", **options: Any) -> DjangoSession:
    return DjangoSession(name, title=SECRET, metadata={"secret": SECRET}, **options)


def test_the_trace_and_all_its_spans_have_the_ids_and_nothing_else(traced):
    session = session_of(namespace="bot", scope=SECRET)
    run(session, trace_config(session))

    ids = {"agent_sessions.session_id": "user-1", "agent_sessions.namespace": "bot"}
    [found] = traced.traces
    assert found.export()["group_id"] == "user-1"
    assert found.export()["metadata"] == ids
    assert SECRET not in json.dumps(found.export())
    kinds = {span.span_data.type for span in traced.spans}
    assert {"agent", "function"} <= kinds
    assert all(span.trace_metadata == ids for span in traced.spans)


def test_runs_of_a_session_are_one_group_and_those_of_another_session_another_one(traced):
    for name in ("user-1", "user-2", "user-1"):
        run(session_of(name), trace_config(session_of(name)))
    assert [one.export()["group_id"] for one in traced.traces] == ["user-1", "user-2", "user-1"]


def test_what_the_configuration_has_stays(traced):
    given = RunConfig(
        group_id="case-7",
        trace_metadata={"tenant": "a", "agent_sessions.session_id": "mine"},
        workflow_name="Support",
    )
    session = session_of()
    run(session, trace_config(session, given))

    [found] = traced.traces
    assert found.name == "Support"
    assert found.export()["group_id"] == "case-7"
    assert found.export()["metadata"] == {"tenant": "a", "agent_sessions.session_id": "mine"}
    assert given.trace_metadata == {"tenant": "a", "agent_sessions.session_id": "mine"}


def test_a_trace_of_the_project_around_several_runs_gets_them_from_the_configuration(traced):
    session = session_of()
    config = trace_config(session)
    with trace("Two runs", group_id=config.group_id, metadata=config.trace_metadata):
        run(session, config)
        run(session, config)

    [found] = traced.traces
    assert found.export()["group_id"] == "user-1"
    assert all(span.trace_metadata == config.trace_metadata for span in traced.spans)
