"""Human in the loop: asked in one process, answered in another."""

from __future__ import annotations

import pytest
from strands.hooks import BeforeToolCallEvent
from strands.types.exceptions import EventLoopException

from django_agent_sessions.models import Session, SessionAgent
from django_agent_sessions.store import SessionStore

from .agents import build, expect_real, expect_valid, requests, stored, texts, yes_to
from .held import summarizing
from .scripted import Overflow, call
from .test_orchestrators import elsewhere

pytestmark = pytest.mark.django_db(transaction=True)

WHOLE = ["Delete it", "call approve", "result delete: yes", "It is done."]


@pytest.mark.process
def test_a_tool_that_asks_is_answered_in_another_process():
    asked = elsewhere("ask")
    assert asked["stop"] == "interrupt"
    assert texts(stored()) == ["Delete it", "call approve"]

    answered = elsewhere("answer", asked["interrupts"][0], "yes")

    assert answered["stop"] == "end_turn"
    assert answered["requests"] == [WHOLE[:3]]
    assert texts(stored()) == answered["stored"] == WHOLE
    again = build("Fine.")
    expect_real(again.messages)
    again("How are you?")
    assert texts(requests(again)[0]) == [*WHOLE, "How are you?"]
    session = Session.objects.get()
    assert (session.message_count, session.input_tokens) == (6, 30)
    assert SessionAgent.objects.get().internal_state["interrupt_state"]["activated"] is False


def test_a_hook_that_asks_is_answered_by_another_agent():
    def guard(event: BeforeToolCallEvent) -> None:
        if event.interrupt("sure", reason="it is a sum") != "yes":
            event.cancel_tool = "not approved"

    first = build(call("add", a=1, b=2))
    first.add_hook(guard, BeforeToolCallEvent)
    result = first("1 + 2?")
    assert result.stop_reason == "interrupt"
    second = build("Three.")
    second.add_hook(guard, BeforeToolCallEvent)

    second(yes_to(result))

    assert texts(stored()) == ["1 + 2?", "call add", "result 3", "Three."]
    assert build().messages == second.messages
    assert build().state.get() == {"sums": 1}


def test_one_tool_asks_and_the_other_was_done_already():
    first = build([call("add", a=1, b=2), call("approve", what="delete")])
    result = first("Do both")
    second = build("Both are done.")

    second(yes_to(result))

    assert texts(stored()) == [
        "Do both",
        "call add call approve",
        "result 3 result delete: yes",
        "Both are done.",
    ]
    assert build().state.get() == {"sums": 1}
    expect_real(build().messages)


def test_an_agent_that_is_built_again_equals_the_one_that_asked():
    sums = [call("add", a=1, b=2), call("approve", what="delete")]
    living = build("Yes.", Overflow(), "SUMMARY", "Fine.", sums, conversation_manager=summarizing())
    living.state.set("mood", "good")
    living("Hello")
    living("And?")
    living("Do both")

    again = build(conversation_manager=summarizing())

    assert texts(again.messages)[0] == "SUMMARY"
    assert again.messages == living.messages
    assert again.state.get() == living.state.get() == {"mood": "good", "sums": 1}
    managers = [agent.conversation_manager.get_state() for agent in (again, living)]
    assert managers[0] == managers[1]
    assert managers[0]["removed_message_count"] > 0
    assert again._interrupt_state == living._interrupt_state
    assert again._interrupt_state.activated
    assert again._interrupt_state.interrupts


@pytest.mark.process
def test_another_run_between_the_question_and_the_answer():
    bystander = build("I am fine.")
    asked = elsewhere("ask")
    bystander("How are you?")
    assert texts(stored()) == ["Delete it", "call approve", "How are you?", "I am fine."]

    answered = elsewhere("answer", asked["interrupts"][0], "yes")

    # What belongs together stands together, wherever it is stored.
    assert answered["requests"] == [["How are you?", "I am fine.", *WHOLE[:3]]]
    again = build()
    # As the agent that answered held it.
    assert texts(again.messages) == ["How are you?", "I am fine.", *WHOLE]
    expect_real(again.messages)


@pytest.mark.process
def test_a_run_that_died_meanwhile_is_not_taken_for_the_one_that_asked():
    def die(event: BeforeToolCallEvent) -> None:
        raise ConnectionResetError

    bystander = build(call("add", a=1, b=2))
    bystander.add_hook(die, BeforeToolCallEvent)
    asked = elsewhere("ask")
    with pytest.raises(EventLoopException):
        bystander("1 + 2?")
    assert texts(stored()) == ["Delete it", "call approve", "1 + 2?", "call add"]

    answered = elsewhere("answer", asked["interrupts"][0], "yes")

    assert answered["requests"][0][-3:] == WHOLE[:3]
    again = build("Fine.")
    assert texts(again.messages)[-4:] == WHOLE
    again("How are you?")
    expect_valid(requests(again)[0])


def test_an_answer_that_is_given_twice_at_once_loses_no_result():
    asked = build(call("approve", what="delete"))("Delete it")
    one, two = build("It is done."), build(call("approve", what="all"), "All is done.")
    more = two(yes_to(asked))
    one(yes_to(asked))
    two(yes_to(more))
    assert texts(stored())[3:] == [
        "call approve",
        "result delete: yes",
        "It is done.",
        "result all: yes",
        "All is done.",
    ]

    again = build()

    expect_real(again.messages)
    assert texts(again.messages) == [
        *WHOLE[:3],
        "call approve",
        "result all: yes",
        "It is done.",
        "All is done.",
    ]


def test_an_answer_that_was_given_before_its_process_was_killed_is_not_asked_for_again():
    store = SessionStore()
    asked = build(call("approve", what="delete"))("Delete it")
    agent = store.agents.list(store.get("s"))[0]
    build("It is done.")(yes_to(asked))
    # The messages of that run are there, and the state is not.
    store.agents.update(agent, agent.data)

    again = build("Fine.")
    again("How are you?")

    assert texts(requests(again)[0]) == [*WHOLE, "How are you?"]
    assert texts(stored()) == [*WHOLE, "How are you?", "Fine."]


def test_a_run_that_is_gone_on_with_under_another_name_keeps_its_results():
    def die(event: BeforeToolCallEvent) -> None:
        raise ConnectionResetError

    bystander = build("I am fine.")
    broken = build(call("add", a=1, b=2))
    broken.add_hook(die, BeforeToolCallEvent)
    with pytest.raises(EventLoopException):
        broken("1 + 2?")
    going_on = build("Three.")
    bystander("How are you?")

    going_on()

    again = build()
    expect_real(again.messages)
    sum_up = ["1 + 2?", "call add", "result 3"]
    assert texts(again.messages) == [*sum_up, "How are you?", "I am fine.", "Three."]


@pytest.mark.process
def test_a_question_may_stay_unanswered():
    elsewhere("ask")

    with pytest.raises(TypeError, match="interruptResponse"):
        build()("Something else")

    assert texts(stored()) == ["Delete it", "call approve"]
