"""An agent that was used in a transaction that was rolled back, and is used again."""

from __future__ import annotations

import pytest
from strands import Agent

from django_agent_sessions.adapters.strands import DjangoSessionManager
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.testing.base import rolled_back_transaction
from tests.texts import text_of

from .scripted import Redact, ScriptedModel

pytestmark = pytest.mark.django_db(transaction=True)


def build(steps: tuple = (), **options) -> Agent:
    manager = DjangoSessionManager("s", **options)
    return Agent(model=ScriptedModel(steps), session_manager=manager, callback_handler=None)


def stored() -> list[str]:
    return [text_of(m) for m in SessionMessage.objects.order_by("message_id")]


def test_it_redacts_its_own_message_and_not_the_one_at_the_same_position():
    agent = build(("first", "lost", Redact("[blocked]")))
    agent("zero")
    with rolled_back_transaction():
        agent("one")
    build(("other",))("somebody else's")

    agent("my secret")

    assert stored() == [
        "zero", "first", "somebody else's", "other", "[blocked]", "I cannot talk about that."
    ]  # fmt: skip


def test_it_goes_on_if_its_session_was_made_in_that_transaction():
    with rolled_back_transaction():
        agent = build(on_conflict="raise")
        agent("one")

    agent("two")

    assert stored() == ["two", "You said: two"]


def test_it_writes_its_state_again():
    agent = build()
    agent("zero")
    with rolled_back_transaction():
        agent.state.set("mood", "good")
        agent("one")

    agent("two")

    assert build().state.get("mood") == "good"


def test_it_does_not_take_an_openai_session_for_its_own():
    store = SessionStore()
    store.append(store.agents.open(store.open("s")), {"role": "user", "content": "Hi"})

    with pytest.raises(ConfigurationError, match="format 'openai'"):
        build()
    assert stored() == ["Hi"]
