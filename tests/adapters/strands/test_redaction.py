"""What a guardrail redacts is nowhere any more, and nobody brings it back."""

from __future__ import annotations

from typing import Any

import pytest
from strands.hooks import AfterInvocationEvent, BeforeModelCallEvent
from strands.types.content import Message
from strands.types.exceptions import SessionException

from django_agent_sessions.db.bridge import run_orm
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.testing import columns_containing, files_containing
from tests.texts import text_of

from .agents import build, manager_of, model_of, requests, stored, texts, yes_to
from .scripted import Redact, call
from .traffic import watched

pytestmark = pytest.mark.django_db(transaction=True)

BLOCKED = "I cannot talk about that."
GONE: Message = {"role": "user", "content": [{"text": "[gone]"}]}


def expect_nowhere(text: str = "plantedsecret") -> None:
    assert columns_containing(text) == []
    assert files_containing(text) == []


def test_a_guardrail_leaves_the_original_nowhere():
    agent = build("Hello.", Redact("[gone]"), "Fine.")
    agent("Hi")
    agent("My card is plantedsecret")
    expect_nowhere()
    agent("How are you?")

    assert texts(stored()) == ["Hi", "Hello.", "[gone]", BLOCKED, "How are you?", "Fine."]
    assert texts(build().messages) == texts(stored())
    assert build().messages == agent.messages
    expect_nowhere()
    row = SessionMessage.objects.get(message_id=2)
    assert row.redacted_at is not None
    assert text_of(row) == "[gone]"


def test_a_guardrail_on_a_tool_result_keeps_the_pair():
    agent = build(call("add", a=41414140, b=1), Redact("[gone]"))
    agent("Add them")

    assert texts(stored())[2] == "result [gone]"
    expect_nowhere("41414141")
    assert build().messages == agent.messages


def test_a_distinct_redacted_message_replaces_the_latest():
    agent = build("plantedsecret")
    agent("Tell me")

    manager_of(agent).redact_latest_message(
        {"role": "assistant", "content": [{"text": "[gone]"}]}, agent
    )

    expect_nowhere()
    again = build()
    assert texts(again.messages) == texts(agent.messages) == ["Tell me", "[gone]"]
    assert again.messages[1]["tracking_id"] == agent.messages[1]["tracking_id"]


def test_a_redacted_question_does_not_replace_the_answer_after_it():
    agent = build("It is lunch time.")
    agent("plantedsecret")
    before = stored()

    with pytest.raises(SessionException, match=r"has the role 'assistant' .* the role 'user'"):
        manager_of(agent).redact_latest_message(GONE, agent)

    assert stored() == before
    assert texts(agent.messages) == ["plantedsecret", "It is lunch time."]


def test_a_prompt_that_was_tried_again_is_redacted_everywhere():
    prompt: Message = {"role": "user", "content": [{"text": "plantedsecret"}]}
    agent = build(RuntimeError("try again"), Redact("[gone]"))
    with pytest.raises(RuntimeError, match="try again"):
        agent([prompt])
    assert texts(stored()) == ["plantedsecret"]

    agent([prompt])

    expect_nowhere()
    assert texts(stored()) == ["[gone]", "[gone]", BLOCKED]
    assert texts(build().messages) == texts(agent.messages) == texts(stored())


def test_a_message_whose_write_failed_is_written_redacted():
    agent = build("Hello.", Redact("[gone]"))
    agent("Hi")

    with watched() as traffic:
        traffic.failing = lambda sql: (
            RuntimeError("disk full") if sql.startswith("INSERT") else None
        )
        with pytest.raises(RuntimeError, match="disk full"):
            manager_of(agent).append_message(secret := _message("plantedsecret"), agent)
        agent.messages.append(secret)
        traffic.failing = lambda sql: None
        manager_of(agent).redact_latest_message(GONE, agent)
        assert texts(stored()) == ["Hi", "Hello."]
        manager_of(agent).sync_agent(agent)

    assert texts(stored()) == ["Hi", "Hello.", "[gone]"]
    assert stored()[2]["tracking_id"] == secret["tracking_id"]
    expect_nowhere()


def test_an_agent_without_messages_has_nothing_to_redact():
    agent = build()

    with pytest.raises(SessionException, match="no message to redact"):
        manager_of(agent).redact_latest_message(GONE, agent)


class TestByAnotherProcess:
    """Somebody redacts what an agent has in memory."""

    def redact(self, position: int, redacted: Any = GONE) -> None:
        store = SessionStore()
        record = store.agents.find(store.get("s"), "default")
        assert record is not None
        original = store.messages.find(record, position)
        assert original is not None
        store.messages.redact(
            record, position, {**redacted, "tracking_id": original.message["tracking_id"]}
        )

    def test_the_next_model_call_does_not_see_the_original(self):
        agent = build("Hello.", "Fine.", "Bye.")
        agent("plantedsecret")
        self.redact(0)

        agent("How are you?")

        assert texts(requests(agent)[1]) == ["[gone]", "Hello.", "How are you?"]
        assert texts(agent.messages) == texts(stored()) == texts(build().messages)
        agent("Bye")
        assert texts(stored())[-2:] == ["Bye", "Bye."]
        expect_nowhere()

    def test_in_the_middle_of_a_run(self):
        agent = build(call("add", a=1, b=2), "Three.")

        def redact(event: BeforeModelCallEvent) -> None:
            if len(requests(agent)) == 0:
                run_orm(self.redact, 0)

        agent.add_hook(redact, BeforeModelCallEvent)
        agent("plantedsecret")

        assert texts(requests(agent)[1]) == ["[gone]", "call add", "result 3"]
        expect_nowhere()

    def test_every_agent_of_the_session_forgets_it(self):
        one = build("One.", agent_id="one")
        two = build("Two.", session_manager=manager_of(one), agent_id="two")
        one("plantedsecret")
        store = SessionStore()
        record = store.agents.find(store.get("s"), "one")
        assert record is not None
        store.messages.redact(record, 0, GONE)

        two("Hi")

        assert texts(one.messages) == ["[gone]", "One."]
        expect_nowhere()

    def test_a_pin_brings_nothing_back(self):
        agent = build("Hello.")
        agent("plantedsecret")
        self.redact(0)
        agent.messages[0]["metadata"] = {"custom": {"pinned": True}}

        manager_of(agent).sync_agent(agent)

        assert texts(agent.messages) == texts(build().messages) == ["[gone]", "Hello."]
        expect_nowhere()

    def test_a_message_that_grows_brings_nothing_back(self):
        from strands.agent import _continuation

        def remind(event: BeforeModelCallEvent) -> None:
            if len(requests(agent)) == 0:
                run_orm(self.redact, 0)
                _continuation.add_input(event, _continuation._ContinuationInput("and this"))

        agent = build("I see.")
        agent.add_hook(remind, BeforeModelCallEvent)
        agent("plantedsecret")

        assert texts(requests(agent)[0]) == ["[gone] and this"]
        assert texts(build().messages) == texts(agent.messages) == ["[gone] and this", "I see."]
        expect_nowhere()

    def test_a_state_is_still_written(self):
        agent = build("Hello.")
        agent("plantedsecret")
        self.redact(0)
        agent.state.set("mood", "good")

        manager_of(agent).sync_agent(agent)

        assert build().state.get() == {"mood": "good"}
        assert texts(agent.messages) == ["[gone]", "Hello."]

    def test_redacting_the_same_message_too(self):
        agent = build("Hello.")
        agent("plantedsecret")
        self.redact(1, {"role": "assistant", "content": [{"text": "[hello]"}]})

        manager_of(agent).redact_latest_message(
            {"role": "assistant", "content": [{"text": "[bye]"}]}, agent
        )
        self.redact(0)
        agent("Go on")

        assert texts(requests(agent)[1]) == ["[gone]", "[bye]", "Go on"]
        assert Session.objects.get().redaction_epoch == 3
        expect_nowhere()


def test_a_redaction_in_a_hook_after_the_run_is_complete():
    def forget(event: AfterInvocationEvent) -> None:
        manager_of(agent).redact_latest_message(
            {"role": "assistant", "content": [{"text": "[gone]"}]}, event.agent
        )

    agent = build("plantedsecret")
    agent.add_hook(forget, AfterInvocationEvent)
    agent("Tell me")

    assert texts(build().messages) == ["Tell me", "[gone]"]
    assert model_of(agent).requests
    expect_nowhere()


def _message(text: str) -> Message:
    return {"role": "user", "content": [{"text": text}]}


def test_a_result_that_waited_for_a_persons_answer_is_forgotten_too():
    first = build([call("add", a=41414140, b=1), call("approve", what="delete")])
    result = first("Do both")
    second = build(Redact("[gone]"))

    second(yes_to(result))

    assert texts(stored())[2] == "result [gone] result [gone]"
    assert columns_containing("41414141") == []
    assert files_containing("41414141") == []
    assert build().messages == second.messages
