"""What a receiver of ``messages_added`` may do to the conversation that is being written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from strands.types.content import Message

from django_agent_sessions import Find, redact
from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.signals import messages_added
from tests.adapters.strands.agents import build, manager_of

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def receiving(receive: Callable[[Any], object]) -> Iterator[None]:
    def receiver(sender: object, session: Any, **arguments: Any) -> None:
        receive(session)

    messages_added.connect(receiver)
    try:
        yield
    finally:
        messages_added.disconnect(receiver)


def redact_secret(session: Any) -> None:
    redact(session, Find("plantedsecret"), reason="found", actor=None)


def texts() -> str:
    return " ".join(str(message.message) for message in SessionMessage.objects.all())


def test_strands_goes_on_after_a_receiver_that_redacts_each_message():
    agent = build("Hello.", "Fine.")
    with receiving(redact_secret):
        agent("my plantedsecret")
        agent("the plantedsecret again")

    assert SessionMessage.objects.count() == 4
    assert "plantedsecret" not in texts() + str(agent.messages)


async def test_openai_goes_on_after_a_receiver_that_redacts_each_message():
    session = DjangoSession("s")
    with receiving(redact_secret):
        await session.add_items([{"role": "user", "content": "my plantedsecret"}])
        await session.add_items([{"role": "user", "content": "the plantedsecret again"}])

    items = await session.get_items()
    assert len(items) == 2
    assert "plantedsecret" not in str(items)


def test_strands_refuses_a_receiver_that_appends_to_the_same_agent_and_does_not_hang(caplog):
    agent = build("Hello.")
    answer: Message = {"role": "assistant", "content": [{"text": "also"}]}
    with receiving(lambda session: manager_of(agent).append_message(answer, agent)):
        agent("Hi")

    assert SessionMessage.objects.count() == 2
    assert "a message of this agent is being written" in caplog.text


def test_an_agent_of_a_receiver_may_be_another_one():
    agent, other = build("Hello."), build(agent_id="other", session_id="other")
    answer: Message = {"role": "assistant", "content": [{"text": "also"}]}
    seen: list[Any] = []

    def append(session: Any) -> None:
        if not seen:
            seen.append(session)
            manager_of(other).append_message(answer, other)

    with receiving(append):
        agent("Hi")

    assert SessionMessage.objects.filter(agent__agent_id="other").count() == 1
    assert SessionMessage.objects.count() == 3
