"""What a project's own tests use: the factory, its fixture, and models that echo."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import RunConfig, Runner
from django.contrib.auth.models import AnonymousUser
from strands import Agent

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.adapters.openai_agents import echo as openai_echo
from django_agent_sessions.adapters.strands import DjangoSessionManager
from django_agent_sessions.adapters.strands import echo as strands_echo
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.integrity import Check
from django_agent_sessions.models import Session
from django_agent_sessions.testing import ToolCall, make_session

pytest_plugins = ["django_agent_sessions.testing.fixtures"]
pytestmark = pytest.mark.django_db(transaction=True)

UNTRACED = RunConfig(tracing_disabled=True)
SAID = ["Where is my order?", "On its way."]


def test_a_session_has_what_was_asked_for(django_user_model, make_agent_session):
    ada = django_user_model.objects.create_user("ada")
    session = make_agent_session(
        *SAID, owner=ada, title="Order", metadata={"team": "blue"}, tokens=(10, 5), model="gpt-5"
    )

    assert (session.owner, session.title, session.message_count) == (ada, "Order", 2)
    assert (session.metadata, session.input_tokens, session.output_tokens) == (
        {"team": "blue"},
        10,
        5,
    )
    rows = session.messages.order_by("message_id").values_list("role", "text", "model")
    assert list(rows) == [("user", SAID[0], ""), ("assistant", SAID[1], "gpt-5")]


def test_an_owner_is_left_out_or_a_user_and_never_none():
    assert make_session("Hello").owner is None
    for nobody in (None, AnonymousUser()):
        with pytest.raises(ConfigurationError):
            make_session("Hello", owner=nobody)
    assert Session.objects.count() == 1


@pytest.mark.parametrize("dialect", ["strands", "openai"])
def test_what_is_made_has_no_damage(dialect):
    make_session(*SAID, dialect=dialect, tokens=(10, 5), model="gpt-5")

    assert list(Check().run()) == []


def test_a_strands_agent_continues_a_made_session_with_the_echo_model():
    session = make_session(*SAID)
    manager = DjangoSessionManager(session.session_id)
    agent = Agent(strands_echo.EchoModel(), session_manager=manager, callback_handler=None)

    assert [each["content"][0].get("text") for each in agent.messages] == SAID
    assert str(agent("When  does it\narrive?")) == "You said: When  does it\narrive?\n"
    session.refresh_from_db()
    assert session.message_count == 4
    assert session.output_tokens


@pytest.mark.parametrize("echo", [strands_echo, openai_echo])
def test_an_echo_model_says_that_it_calls_no_tools(echo):
    with pytest.raises(TypeError, match="texts, not with ToolCall"):
        echo.EchoModel("Yes.", ToolCall("register", {}, "1"))


def test_an_openai_agent_continues_a_made_session_with_the_echo_model():
    session = make_session(*SAID, dialect="openai")
    stored = DjangoSession(session.session_id)
    agent = OpenAIAgent(name="assistant", model=openai_echo.EchoModel("First this."))

    async def run() -> list[str]:
        assert len(await stored.get_items()) == 2
        scripted = await Runner.run(agent, "Hello", session=stored, run_config=UNTRACED)
        streamed = Runner.run_streamed(agent, "How  are\nyou?", session=stored, run_config=UNTRACED)
        words: list[Any] = [
            event.data.delta
            async for event in streamed.stream_events()
            if event.type == "raw_response_event" and hasattr(event.data, "delta")
        ]
        return [scripted.final_output, "".join(words), streamed.final_output]

    echoed = "You said: How  are\nyou?"
    assert asyncio.run(run()) == ["First this.", echoed, echoed]
    session.refresh_from_db()
    assert session.message_count == 6
