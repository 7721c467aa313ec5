"""A client's id of the user's message that a run answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import RunConfig, Runner
from strands import Agent

from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession, DjangoSession
from django_agent_sessions.adapters.strands import DjangoSessionManager
from django_agent_sessions.db.bridge import arun_orm
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.values.ids import SessionKey
from django_agent_sessions.values.run_context import QuestionKey, run_context
from tests.adapters.openai_agents import scripted as openai_models
from tests.adapters.openai_agents.team import assistant
from tests.adapters.strands import scripted as strands_models
from tests.adapters.strands.tools import add

pytestmark = pytest.mark.django_db(transaction=True)

UNTRACED = RunConfig(tracing_disabled=True)


def strands_run(*steps, text="Hello", session_id="s", **options):
    agent = Agent(
        model=strands_models.ScriptedModel(steps),
        tools=[add],
        session_manager=DjangoSessionManager(session_id),
        callback_handler=None,
        **options,
    )
    agent(text)
    return agent


def named():
    rows = SessionMessage.objects.exclude(external_id=None)
    return list(rows.order_by("id").values_list("text", "external_id"))


def questions():
    rows = SessionMessage.objects.filter(role="user").exclude(text="")
    return list(rows.order_by("id").values_list("text", flat=True))


def test_only_the_question_has_the_id_in_a_tool_loop_of_strands():
    with run_context(question="m-1"):
        agent = strands_run(strands_models.call("add", a=1, b=2), "Three.", text="1 + 2?")
        agent("And then?")

    assert named() == [("1 + 2?", "m-1")]
    assert len(questions()) >= 2


def test_what_an_agent_is_created_with_is_not_the_question():
    example = [
        {"role": "user", "content": [{"text": "An example"}]},
        {"role": "assistant", "content": [{"text": "of an answer"}]},
    ]
    with run_context(question="m-1"):
        strands_run("Hi.", messages=example)

    assert named() == [("Hello", "m-1")]


@pytest.mark.parametrize("session_class", [DjangoSession, AdvancedDjangoSession])
@pytest.mark.parametrize("sync", [False, True])
def test_only_the_question_has_the_id_in_a_tool_loop_of_openai(session_class, sync, thread_loop):
    agent = assistant(openai_models.call("add", a=1, b=2), "Three.")
    with run_context(question="m-1"):
        if sync:
            Runner.run_sync(agent, "1 + 2?", session=session_class("s"), run_config=UNTRACED)
        else:
            run = Runner.run(agent, "1 + 2?", session=session_class("s"), run_config=UNTRACED)
            asyncio.run(run)

    assert named() == [("1 + 2?", "m-1")]


async def test_of_several_messages_of_the_user_the_first_has_the_id():
    items: Any = [{"role": "system", "content": "x"}, {"role": "user", "content": "a"}]
    with run_context(question="m-1"):
        await DjangoSession("s").add_items([*items, {"role": "user", "content": "b"}])

    assert [key for _, key in await arun_orm(named)] == ["m-1"]
    assert (await arun_orm(named))[0][0] == "a"


@pytest.mark.parametrize("session_class", [DjangoSession, AdvancedDjangoSession])
async def test_a_stored_question_is_not_stored_again(session_class):
    session = session_class("s")
    await session.add_items([{"role": "user", "content": "a"}])

    with run_context(question=QuestionKey("m-1", stored_text="a")):
        agent = OpenAIAgent(name="a", model=openai_models.ScriptedModel(["A."]))
        await Runner.run(agent, "a", session=session_class("s"), run_config=UNTRACED)
        await Runner.run(agent, "a", session=session_class("s"), run_config=UNTRACED)

    # The second time it is another message of the same text.
    assert await arun_orm(questions) == ["a", "a"]


def test_a_stored_question_is_not_stored_again_by_strands():
    with run_context(question="m-1"), pytest.raises(RuntimeError):
        strands_run(RuntimeError("down"), text="a")
    with run_context(question=QuestionKey("m-1", stored_text="a")):
        agent = strands_run("A.", text="a")

    assert questions() == ["a"]
    agent("b")
    restored = strands_run("C.", text="c")
    texts = [message["content"][0]["text"] for message in restored.messages]
    assert texts.count("a") == 1
    assert texts[-2:] == ["c", "C."]


async def test_the_id_is_for_one_session_only():
    key = QuestionKey("m-1", SessionKey("", "", "s"))
    with run_context(question=key):
        for session_id in ("other", "s"):
            await DjangoSession(session_id).add_items([{"role": "user", "content": session_id}])

    assert await arun_orm(named) == [("s", "m-1")]


async def test_a_repeated_run_that_writes_other_messages_of_the_user_keeps_them():
    with run_context(question=QuestionKey("m-1", stored_text="a")):
        await DjangoSession("s").add_items([{"role": "user", "content": "format it"}])
        await DjangoSession("s").add_items([{"role": "user", "content": "a"}])

    assert await arun_orm(questions) == ["format it", "a"]
    assert await arun_orm(named) == []


MASKED = "Pay with [REDACTED:CARD]"
CARD = "Pay with 4111 1111 1111 1111"


@pytest.mark.parametrize("added", ["", "The time is 12:00.\n"])
@pytest.mark.parametrize("sdk", ["strands", "openai"])
def test_a_question_that_was_masked_when_it_was_written_is_not_stored_again(settings, sdk, added):
    settings.AGENT_SESSIONS = {"REDACT_ON_WRITE": ("card",)}

    def ask() -> None:
        if sdk == "strands":
            strands_run("A.", text=f"{added}{CARD}")
        else:
            agent = OpenAIAgent(name="a", model=openai_models.ScriptedModel(["A."]))
            run = Runner.run(
                agent, f"{added}{CARD}", session=DjangoSession("s"), run_config=UNTRACED
            )
            asyncio.run(run)

    with run_context(question="m-1"):
        ask()
    stored = f"{added}{MASKED}"
    with run_context(question=QuestionKey("m-1", stored_text=stored, sent_text=CARD)):
        ask()

    assert named() == [(stored, "m-1")]
    assert questions() == [stored]
