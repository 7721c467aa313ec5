"""Agents of both SDKs, traced by OpenTelemetry's SDK: every span of a run carries the session."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import Runner, function_tool
from opentelemetry import baggage, trace
from strands import Agent, tool
from strands.session import SnapshotSessionManager
from strands.session.repository_session_manager import RepositorySessionManager

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.adapters.strands import (
    DjangoSessionManager,
    DjangoSessionRepository,
    DjangoStorage,
)
from tests.adapters.openai_agents import scripted as openai_model
from tests.adapters.strands import scripted as strands_model

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "Ottilie-4711"
IDS = {
    "gen_ai.conversation.id": "user-1",
    "agent_sessions.session_id": "user-1",
    "agent_sessions.namespace": "bot",
}


@pytest.fixture(autouse=True)
def of_this_test(recorded):
    return recorded


@tool
def ask(of: str) -> str:
    """Ask for something.

    Args:
        of: What for.
    """
    with trace.get_tracer("project").start_as_current_span("http request"):
        carried = baggage.get_all()
    return f"{SECRET} {sorted(carried)}"


@function_tool(name_override="ask")
def ask_openai(of: str) -> str:
    with trace.get_tracer("project").start_as_current_span("http request"):
        carried = baggage.get_all()
    return f"{SECRET} {sorted(carried)}"


def manager_of(session_id: str) -> DjangoSessionManager:
    return DjangoSessionManager(session_id, namespace="bot", title=SECRET)


def strands_agent(session_manager: Any = None) -> Agent:
    steps = [strands_model.call("ask", of=SECRET), f"It is {SECRET}."]
    return Agent(
        model=strands_model.ScriptedModel(steps),
        tools=[ask],
        callback_handler=None,
        agent_id="helper",
        session_manager=session_manager or manager_of("user-1"),
    )


def openai_agent() -> OpenAIAgent:
    steps: list[openai_model.Step] = [openai_model.call("ask", of=SECRET), f"It is {SECRET}."]
    return OpenAIAgent(name=SECRET, model=openai_model.ScriptedModel(steps), tools=[ask_openai])


def expect_session(recorded, *, names: set[str], agent_id: str) -> None:
    """Asserts that all spans carry the session, and that ours carry no content."""
    spans = recorded.spans()
    assert names <= {span.name for span in spans}
    for span in spans:
        found = {name: span.attributes.get(name) for name in IDS}
        assert found == IDS, span.name
        if span.instrumentation_scope.name == "django_agent_sessions":
            assert SECRET not in span.to_json()
            assert span.name != "agent_sessions.append" or (
                span.attributes["agent_sessions.agent_id"] == agent_id
            )


STRANDS = {"invoke_agent Strands Agents", "execute_event_loop_cycle", "chat", "http request"}


def test_a_strands_agent_in_a_loop(recorded):
    async def run():
        with recorded.tracer.start_as_current_span("request"):
            await strands_agent().invoke_async(f"Who is {SECRET}?")

    asyncio.run(run())
    expect_session(
        recorded, names={*STRANDS, "request", "agent_sessions.append"}, agent_id="helper"
    )


def test_a_strands_agent_in_sync_code(recorded):
    strands_agent()(f"Who is {SECRET}?")
    expect_session(recorded, names={*STRANDS, "agent_sessions.append"}, agent_id="helper")


def test_a_strands_agent_called_in_sync_code_inside_of_a_loop(recorded):
    async def run():
        with recorded.tracer.start_as_current_span("request"):
            strands_agent()(f"Who is {SECRET}?")

    asyncio.run(run())
    expect_session(recorded, names={*STRANDS, "request"}, agent_id="helper")


def test_a_strands_agent_that_was_built_in_another_thread(recorded):
    built = []
    thread = threading.Thread(target=lambda: built.append(strands_agent()))
    thread.start()
    thread.join()
    recorded.clear()
    built[0](f"Who is {SECRET}?")
    expect_session(recorded, names=STRANDS, agent_id="helper")


@pytest.mark.parametrize("manager", ["repository", "snapshots"])
def test_a_strands_agent_with_a_manager_of_strands(recorded, manager):
    session_manager: Any = (
        RepositorySessionManager(
            "user-1", session_repository=DjangoSessionRepository(namespace="bot")
        )
        if manager == "repository"
        else SnapshotSessionManager("user-1", storage=DjangoStorage(namespace="bot"))
    )
    with recorded.tracer.start_as_current_span("request"):
        strands_agent(session_manager)(f"Who is {SECRET}?")
    expect_session(recorded, names={*STRANDS, "request"}, agent_id="helper")


@pytest.mark.parametrize("way", ["run", "run_streamed"])
def test_an_openai_agent_in_a_loop(recorded, way):
    async def run():
        session = DjangoSession("user-1", namespace="bot", title=SECRET)
        with recorded.tracer.start_as_current_span("request"):
            if way == "run":
                await Runner.run(openai_agent(), f"Who is {SECRET}?", session=session)
            else:
                result = Runner.run_streamed(openai_agent(), f"Who is {SECRET}?", session=session)
                async for _ in result.stream_events():
                    pass

    asyncio.run(run())
    expect_session(recorded, names={"request", "http request"}, agent_id="default")


@pytest.mark.filterwarnings("ignore:'asyncio.get_event_loop_policy':DeprecationWarning")
@pytest.mark.usefixtures("thread_loop")
def test_an_openai_agent_in_sync_code(recorded):
    with recorded.tracer.start_as_current_span("request"):
        session = DjangoSession("user-1", namespace="bot", title=SECRET)
        Runner.run_sync(openai_agent(), f"Who is {SECRET}?", session=session)
    expect_session(recorded, names={"request", "http request"}, agent_id="default")


def test_two_runs_at_once_do_not_mix_their_sessions(recorded):
    async def run(session_id):
        with recorded.tracer.start_as_current_span(f"request of {session_id}"):
            await strands_agent(manager_of(session_id)).invoke_async("Hello")

    async def both():
        await asyncio.gather(run("user-1"), run("user-2"))

    asyncio.run(both())
    by_trace: dict[int, set[Any]] = {}
    for span in recorded.spans():
        found = by_trace.setdefault(span.context.trace_id, set())
        found.add(span.attributes["agent_sessions.session_id"])
    assert sorted(map(sorted, by_trace.values())) == [["user-1"], ["user-2"]]
