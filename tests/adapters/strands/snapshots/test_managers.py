"""Strands' ``SnapshotSessionManager`` on the storage: every strategy, every kind of agent."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
from typing import Any

import pytest
from strands import Agent
from strands.agent.conversation_manager import (
    SlidingWindowConversationManager,
    SummarizingConversationManager,
)
from strands.bidi.agent import BidiAgent
from strands.bidi.types.events import BidiResponseStartEvent, BidiResponseStopEvent
from strands.session import SnapshotSessionManager

from django_agent_sessions.adapters.strands import DjangoStorage
from django_agent_sessions.models import (
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
    Snapshot,
    StoredObject,
)
from django_agent_sessions.testing import columns_containing
from tests.adapters.strands.agents import expect_real, requests, texts, yes_to
from tests.adapters.strands.scripted import Overflow, Redact, ScriptedModel, call
from tests.adapters.strands.test_bidi import ScriptedBidiModel, transcript
from tests.adapters.strands.tools import add
from tests.processes import Process

from .making import build, manager_of, run

pytestmark = pytest.mark.django_db(transaction=True)


def process(work: str, *arguments: str) -> Process:
    return Process("tests.adapters.strands.snapshots.process", work, json.dumps(arguments))


def expect_killed(started: Process) -> None:
    _, errors = started.communicate()
    assert started.returncode == -signal.SIGKILL, errors


def said(branch: int = 0) -> list[str]:
    rows = SessionMessage.objects.filter(branch=branch).order_by("message_id")
    return texts([row.message for row in rows])


@pytest.mark.parametrize("strategy", ["message", "invocation"])
def test_an_agent_goes_on_where_it_ended(strategy):
    agent = build(call("add", a=1, b=2), "Three.", save_latest_on=strategy)
    agent.state.set("name", "Ada")
    agent("1 + 2?")

    again = build("Bye.", save_latest_on=strategy)
    assert again.messages == agent.messages
    assert again.state.get() == {"name": "Ada", "sums": 1}
    again("Bye")

    expect_real(again.messages)
    assert said() == ["1 + 2?", "call add", "result 3", "Three.", "Bye", "Bye."]
    row = Session.objects.get()
    assert (row.message_count, row.input_tokens, row.output_tokens) == (6, 30, 15)
    assert SessionAgent.objects.get().state == {"name": "Ada", "sums": 1}
    assert not StoredObject.objects.exists()


def test_only_a_trigger_saves_if_told_so():
    agent = build("a", "b", save_latest_on="trigger", snapshot_trigger=every_second())

    agent("1")
    assert not Session.objects.exists()
    agent("2")

    assert said() == ["1", "a", "2", "b"]
    assert Snapshot.objects.count() == 2


def every_second() -> Any:
    count = itertools.count(1)
    return lambda *, agent_data, **more: next(count) % 2 == 0


@pytest.mark.parametrize("strategy", ["message", "invocation"])
def test_going_back_in_time_and_on_from_there(strategy):
    agent = build(*"abcd", save_latest_on=strategy, snapshot_trigger=lambda **more: True)
    for prompt in "1234":
        agent.state.set("at", prompt)
        agent(prompt)
    manager = manager_of(agent)
    ids = run(manager.list_snapshot_ids(agent))
    assert len(ids) == 4
    assert run(manager.list_snapshot_ids(agent, limit=2, start_after=ids[0])) == ids[1:3]

    again = build("other", save_latest_on=strategy)
    assert run(manager_of(again).restore_snapshot(again, snapshot_id=ids[1]))
    assert texts(again.messages) == ["1", "a", "2", "b"]
    assert again.state.get("at") == "2"
    again("3'")

    assert said() == ["1", "a", "2", "b", "3'", "other"]
    assert said(1) == ["1", "a", "2", "b", "3", "c", "4", "d"]
    for count, name in enumerate(ids, 1):
        back = build()
        assert run(manager_of(back).restore_snapshot(back, snapshot_id=name))
        assert back.messages == agent.messages[: 2 * count]
    assert texts(build().messages) == said()


def test_a_window_that_slides():
    def windowed() -> Agent:
        return build(
            save_latest_on="message",
            conversation_manager=SlidingWindowConversationManager(window_size=4),
        )

    agent = windowed()
    for number in range(6):
        agent(f"prompt {number}")

    assert len(said()) == 12
    again = windowed()
    assert again.messages == agent.messages
    assert len(again.messages) == 4
    again("last")
    assert len(said()) == 14
    assert SessionAgent.objects.get().window == {"kept": [], "tail": 10}


def test_a_summary():
    def summarizing(*steps: Any) -> Agent:
        manager = SummarizingConversationManager(summary_ratio=0.5, preserve_recent_messages=1)
        return build(*steps, conversation_manager=manager, save_latest_on="message")

    agent = summarizing("a", "b", Overflow(), "THE SUMMARY", "c")
    for prompt in "123":
        agent(prompt)

    assert said()[:6] == ["1", "a", "2", "b", "3", "c"]
    again = summarizing("d")
    assert again.messages == agent.messages
    assert "THE SUMMARY" in texts(again.messages)[0]
    again("4")
    assert said() == ["1", "a", "2", "b", "3", "c", "4", "d"]


@pytest.mark.parametrize("strategy", ["message", "invocation", "trigger"])
def test_what_a_guardrail_took_back_is_in_no_table(strategy):
    agent = build("Fine.", Redact("[taken back]"), save_latest_on=strategy)
    agent("Hello")
    agent("my plantedsecret")

    assert columns_containing("plantedsecret") == []
    assert texts(build().messages)[2] == "[taken back]"


def test_an_interrupt_is_answered_by_another_process():
    result = build(call("approve", what="delete"))("Delete it")

    again = build("It is done.")
    again(yes_to(result))

    expect_real(again.messages)
    assert said()[-1] == "It is done."


def test_a_spoken_conversation():
    async def speak(*events: Any) -> BidiAgent:
        agent = BidiAgent(
            model=ScriptedBidiModel(*events),
            session_manager=SnapshotSessionManager("s", storage=DjangoStorage()),
        )
        await agent.start()
        async for event in agent.receive():
            if event.get("response_id") == "end":
                break
        await agent.stop()
        return agent

    user, assistant = (
        transcript("u", "How ", "are you?"),
        transcript("a", "Fine.", role="assistant"),
    )
    overlapping = [user[0], assistant[0], *assistant[1:], *user[1:]]
    agent = asyncio.run(
        speak(BidiResponseStartEvent("r"), *overlapping, BidiResponseStopEvent("end"))
    )

    assert said() == ["How are you?", "Fine."]
    again = asyncio.run(speak(BidiResponseStopEvent("end")))
    assert again.messages == agent.messages
    assert isinstance(again.model, ScriptedBidiModel)
    assert texts(again.model.started_with) == ["How are you?", "Fine."]
    assert SessionMessage.objects.count() == 2


@pytest.mark.process
@pytest.mark.parametrize("kind", ["graph", "swarm"])
def test_an_orchestrator_goes_on_where_its_process_was_killed(kind):
    whole = outcome(kind, "whole")
    expect_killed(process("orchestrate_and_die", kind))

    resumed = outcome(kind, "s")

    assert resumed["order"] == whole["order"]
    assert resumed["said"] == whole["said"]
    assert sum(resumed["calls"].values()) < sum(whole["calls"].values())
    row = SessionMultiAgent.objects.get(session__session_id="s")
    assert row.kind == kind
    assert row.state["status"] == "completed"


def outcome(kind: str, session_id: str) -> dict[str, Any]:
    printed, errors = process("orchestrate", kind, session_id).communicate()
    assert printed, errors
    found: dict[str, Any] = json.loads(printed)
    return found


@pytest.mark.process
def test_a_killed_process_and_an_uninterrupted_one_know_the_same():
    expect_killed(process("converse_and_die"))

    agent = build()
    assert texts(agent.messages) == ["0", "answer", "1", "answer", "2", "answer"]
    assert agent.state.get() == {"last": "2"}
    agent("3")
    assert requests(agent)[-1][:-1] == [
        {"role": m["role"], "content": m["content"]} for m in agent.messages[:6]
    ]


@pytest.mark.filterwarnings("ignore:context_window_limit is not set")
def test_what_a_context_manager_stashes_belongs_to_the_session():
    def stashing(*steps: Any) -> Agent:
        return Agent(
            model=ScriptedModel(steps),
            tools=[add],
            callback_handler=None,
            context_manager="auto",
            storage=DjangoStorage(),
            session_manager=SnapshotSessionManager("s"),
        )

    agent = stashing(call("add", a=1, b=2), "Three.")
    agent("1 + 2?")
    session = Session.objects.get(session_id="s")
    stashed = list(StoredObject.objects.all())
    assert stashed
    assert {row.session for row in stashed} == {session}
    assert all(row.key.startswith("context/s/scopes/agent/default/") for row in stashed)

    again = stashing("Bye.")
    assert again.messages == agent.messages
    again("Bye")
    assert again.context_manager is not None
    assert again.context_manager.stash_is_durable
    asyncio.run(manager_of(again).delete_session())

    assert not StoredObject.objects.exists()
    assert not Session.objects.exists()


def test_deleting_a_session_deletes_it_with_all_its_keys():
    agent = build("a", "b", snapshot_trigger=lambda **more: True)
    agent("1")
    agent("2")
    storage = DjangoStorage()
    run(storage.write("context/s/scopes/agent/default/call-1_0", b"a large result"))
    build("c", session_id="other")("3")

    run(manager_of(agent).delete_session())

    assert [row.session_id for row in Session.objects.all()] == ["other"]
    assert not StoredObject.objects.exists()


def test_agents_of_one_session_have_conversations_of_their_own():
    storage = DjangoStorage()
    one = build("a", storage=storage, agent_id="one")
    other = build("b", storage=storage, agent_id="other")

    one("1")
    other("2")

    assert texts(build(agent_id="one").messages) == ["1", "a"]
    assert texts(build(agent_id="other").messages) == ["2", "b"]
    assert Session.objects.get().message_count == 4
