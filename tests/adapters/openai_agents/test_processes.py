"""Several processes on one conversation."""

from __future__ import annotations

import asyncio

import pytest
from agents import Runner

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.models import Session
from tests.adapters.processes import result_of, work_together

from .scripted import call
from .team import assistant, requests, stored, texts, user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]

WORKER = "tests.adapters.openai_agents.worker"


def test_a_conversation_goes_on_in_another_process():
    agent = assistant(call("add", a=1, b=2), "Three.")
    asyncio.run(Runner.run(agent, "1 + 2?", session=DjangoSession("s")))
    before = stored()

    other = result_of(WORKER, "say", "s", "Thanks")

    turn = ["1 + 2?", "call add", "output 3", "Three."]
    assert other == {"heard": [*turn, "Thanks"], "answered": "You said: Thanks"}
    assert stored()[:4] == before
    again = assistant()
    asyncio.run(Runner.run(again, "Bye", session=DjangoSession("s")))
    assert texts(requests(again)[0]) == [*turn, "Thanks", "You said: Thanks", "Bye"]
    assert Session.objects.get().message_count == len(stored()) == 8


def test_four_processes_pop_100_items_each_and_none_twice():
    items = [user(str(number)) for number in range(400)]
    asyncio.run(DjangoSession("s").add_items(items))

    taken = work_together(WORKER, "pop", "s", 100, processes=4)

    assert sorted(int(text) for one in taken for text in one) == list(range(400))
    assert stored() == []
    assert Session.objects.get().message_count == 0
