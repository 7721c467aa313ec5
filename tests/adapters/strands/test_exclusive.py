"""Agents and orchestrators whose runs take turns."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from strands import Agent, tool
from strands.bidi import BidiAgent
from strands.hooks import AfterInvocationEvent, BeforeInvocationEvent
from strands.multiagent import GraphBuilder

from django_agent_sessions.adapters.strands import DjangoSessionManager
from django_agent_sessions.exceptions import (
    ConfigurationError,
    PayloadError,
    SessionBusyError,
    SessionConflictError,
)
from django_agent_sessions.models import RunLease
from django_agent_sessions.store._append import AppendWrite
from django_agent_sessions.testing.exclusive import is_free
from tests.threads import elsewhere

from .agents import build, requests, stored, texts, yes_to
from .scripted import ScriptedModel, call
from .test_bidi import ScriptedBidiModel
from .traffic import watched

pytestmark = pytest.mark.django_db(transaction=True)


def exclusive(*steps, wait=0.2, **options) -> Agent:
    manager = DjangoSessionManager("s", exclusive=True, wait=wait)
    return build(*steps, session_manager=manager, **options)


def during(function):
    """A step that calls a function while the agent runs."""

    def choose(messages):
        function()
        return "Done."

    return choose


def test_an_agent_goes_on_with_what_others_said_and_with_their_state():
    one = exclusive()
    two = exclusive(call("add", a=1, b=2))
    one("First")
    two("Second")
    one("Third")

    assert texts(requests(one)[1]) == [
        *["First", "You said: First", "Second", "call add", "result 3", "You said: Second"],
        "Third",
    ]
    assert one.state.get("sums") == 1
    assert len(stored()) == 8
    assert texts(build(session_id="s").messages) == texts(stored())


def test_what_nobody_changed_is_not_read_again():
    agent = exclusive()
    agent("First")
    messages = agent.messages

    with watched() as traffic:
        agent("Second")

    assert agent.messages is messages
    # The lease is taken, the agent and its last message looked at; at the end it is given back.
    assert [sql.split()[0] for sql in traffic.taken()] == [
        *["SELECT", "UPDATE", "SELECT", "SELECT"],
        *["INSERT", "INSERT", "UPDATE", "UPDATE"],
    ]


def test_a_stream_that_nobody_reads_to_its_end_frees_the_session():
    async def main():
        stream: Any = exclusive().stream_async("Hello")
        async for event in stream:
            if "data" in event:
                break
        await stream.aclose()

    asyncio.run(main())
    assert is_free("s")


def test_an_interrupted_run_frees_the_session_and_is_resumed_in_a_turn_of_its_own():
    agent = exclusive(call("approve", what="it"), "Finished.")
    result = agent("Do it")
    assert result.stop_reason == "interrupt"
    assert is_free("s")

    agent(yes_to(result))

    assert texts(stored())[-1] == "Finished."
    assert is_free("s")


def test_a_text_that_waited_while_another_run_asked_is_refused_and_the_answer_taken():
    late = exclusive("Finished.")
    question = exclusive(call("approve", what="it"))("Do it")

    with pytest.raises(SessionConflictError, match="waits for an answer"):
        late("And that too")
    assert is_free("s")
    assert texts(stored()) == ["Do it", "call approve"]
    late(yes_to(question))

    assert texts(requests(late)[0]) == ["Do it", "call approve", "result it: yes"]
    assert texts(stored())[-1] == "Finished."


def test_an_answer_that_is_given_twice_is_acted_upon_once():
    question = exclusive(call("approve", what="it"))("Do it")
    one, two = exclusive("Finished."), exclusive("Fine.")
    one(yes_to(question))

    with pytest.raises(SessionConflictError, match="answered in another run"):
        two(yes_to(question))
    assert is_free("s")
    two("How are you?")

    whole = ["Do it", "call approve", "result it: yes", "Finished.", "How are you?"]
    assert texts(requests(two)[0]) == whole
    assert texts(stored()) == [*whole, "Fine."]


@pytest.mark.parametrize("event", [BeforeInvocationEvent, AfterInvocationEvent])
def test_a_hook_that_fails_before_or_after_the_run_keeps_nobody_waiting_for_long(settings, event):
    settings.AGENT_SESSIONS = {"LEASE_SECONDS": 0.5}
    agent = exclusive()

    def fail(event):
        raise RuntimeError("broken hook")

    agent.hooks.add_callback(event, fail)
    with pytest.raises(RuntimeError, match="broken hook"):
        agent("Hello")

    time.sleep(0.5)
    assert is_free("s")


def test_state_that_cannot_be_written_at_the_end_frees_the_session():
    agent = exclusive()
    agent("Hello")
    agent.hooks.add_callback(
        AfterInvocationEvent,
        lambda event: (
            event.agent._interrupt_state.context.update(bad={1, 2})
            or event.agent.state.set("moved", True)
        ),
    )

    with pytest.raises(PayloadError):
        agent("Hello")

    assert is_free("s")


def test_a_run_that_lost_its_session_writes_nothing_and_begins_anew(settings):
    settings.AGENT_SESSIONS = {"LEASE_SECONDS": 0.3}
    other = build("Mine now.", session_id="s")

    def take_away():
        RunLease.objects.update(token="01890000-0000-7000-8000-000000000000")
        other("Other")

    def lose():
        elsewhere(take_away)
        time.sleep(0.4)

    agent = exclusive(choose=during(lose))
    with pytest.raises(SessionBusyError, match="lost the lease of"):
        agent("Hello")

    assert texts(stored()) == ["Hello", "Other", "Mine now."]
    RunLease.objects.all().delete()
    agent.model = ScriptedModel()
    agent("Again")
    assert texts(requests(agent)[0]) == ["Hello", "Other", "Mine now.", "Again"]
    assert len(stored()) == 5


def test_a_message_whose_write_failed_is_still_written_after_anothers_turn(monkeypatch):
    agent = exclusive()
    agent("First")

    def broken(*args, **kwargs):
        raise OSError("no database")

    with monkeypatch.context() as patch:
        patch.setattr(AppendWrite, "write", broken)
        with pytest.raises(OSError, match="no database"):
            agent("Second")
    exclusive()("Other")
    agent("Third")

    assert texts(stored()) == [
        *["First", "You said: First", "Other", "You said: Other"],
        *["Second", "Third", "You said: Third"],
    ]


def test_an_agent_that_is_a_tool_is_within_the_turn_of_its_caller():
    inner = exclusive("Inner.", agent_id="inner", wait=0)

    @tool
    def ask(question: str) -> str:
        """Ask another agent.

        Args:
            question: What.
        """
        return str(inner(question))

    outer = Agent(
        model=ScriptedModel([call("ask", question="Who?"), "Outer."]),
        tools=[ask],
        callback_handler=None,
        session_manager=DjangoSessionManager("s", exclusive=True, wait=0),
    )
    outer("Hello")

    assert texts(stored())[-1] == "Outer."
    assert texts(stored(agent_id="inner")) == ["Who?", "Inner."]


def graph(seen, *, wait=0.2):
    builder = GraphBuilder()
    for name in ("research", "write"):
        model = ScriptedModel(choose=during(seen))
        builder.add_node(Agent(model=model, name=name, callback_handler=None), name)
    builder.add_edge("research", "write")
    builder.set_max_node_executions(10)
    builder.set_session_manager(DjangoSessionManager("s", exclusive=True, wait=wait))
    return builder.build()


def test_a_graph_holds_the_session_for_all_its_nodes():
    seen = []
    graph(lambda: seen.append(is_free("s")))("Go")

    assert seen == [False, False]
    assert is_free("s")


def test_a_graph_waits_for_another_and_catches_up_with_it():
    one, two = graph(lambda: None), graph(lambda: None)
    one("Go")
    assert two.state.task != "Go"
    two("Go on")
    assert is_free("s")

    blocked = []
    three = graph(lambda: blocked.append(elsewhere(lambda: one("Me too"))))
    three("Go")
    assert {type(error) for error in blocked} == {SessionBusyError}


def test_a_bidirectional_agent_is_refused():
    with pytest.raises(ConfigurationError, match=r"leases\.acquire"):
        BidiAgent(
            model=ScriptedBidiModel(), session_manager=DjangoSessionManager("s", exclusive=True)
        )


def test_it_works_with_a_session_that_was_loaded_ahead():
    async def main():
        manager = await DjangoSessionManager.load("s", exclusive=True)
        agent = build(session_manager=manager)
        exclusive_other = exclusive()
        await exclusive_other.invoke_async("First")
        await agent.invoke_async("Second")
        return requests(agent)[0]

    assert texts(asyncio.run(main())) == ["First", "You said: First", "Second"]
