"""Several processes on one conversation."""

from __future__ import annotations

import asyncio

import pytest
from agents import Runner

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.models import Session, SessionAgent

from .others import in_another_process, work_together
from .scripted import call
from .team import assistant, requests, stored, texts, user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]


def test_a_conversation_goes_on_in_another_process():
    agent = assistant(call("add", a=1, b=2), "Three.")
    asyncio.run(Runner.run(agent, "1 + 2?", session=DjangoSession("s")))
    before = stored()

    other = in_another_process("say", "s", "Thanks")

    turn = ["1 + 2?", "call add", "output 3", "Three."]
    assert other == {"heard": [*turn, "Thanks"], "answered": "You said: Thanks"}
    assert stored()[:4] == before
    again = assistant()
    asyncio.run(Runner.run(again, "Bye", session=DjangoSession("s")))
    assert texts(requests(again)[0]) == [*turn, "Thanks", "You said: Thanks", "Bye"]
    assert Session.objects.get().message_count == len(stored()) == 8


def test_two_processes_append_200_items_each_to_a_session_that_neither_finds():
    work_together("append", 200, 2)

    found = texts(stored())
    assert len(found) == len(set(found)) == 400
    for number in (0, 1):
        own = [text for text in found if text.startswith(f"{number}-")]
        assert own == [f"{number}-{index}" for index in range(200)]
    assert Session.objects.get().message_count == 400
    assert SessionAgent.objects.count() == 1


def test_four_processes_pop_100_items_each_and_none_twice():
    items = [user(str(number)) for number in range(400)]
    asyncio.run(DjangoSession("s").add_items(items))

    taken = work_together("pop", 100, 4)

    assert sorted(int(text) for one in taken for text in one) == list(range(400))
    assert stored() == []
    assert Session.objects.get().message_count == 0


def test_two_processes_call_tools_in_one_conversation_and_every_call_has_its_output():
    work_together("converse", 10, 2)

    items = stored()
    # A user's text, two calls, two outputs and an answer for each of twenty turns.
    assert len(items) == 120
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    answered = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    assert len(set(calls)) == len(calls) == 40
    assert sorted(answered) == sorted(calls)
    for call_id in calls:
        kinds = [item["type"] for item in items if item.get("call_id") == call_id]
        assert kinds == ["function_call", "function_call_output"]
    for number in (0, 1):
        own = [text for text in texts(items) if text.startswith(f"Done: {number}-")]
        assert own == [f"Done: {number}-{index}" for index in range(10)]
