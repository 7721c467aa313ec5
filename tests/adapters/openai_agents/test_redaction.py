"""Overwriting what was said."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import Runner

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.db.bridge import arun_orm
from django_agent_sessions.exceptions import PayloadError, SessionNotFoundError
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.testing import columns_containing, files_containing

from .scripted import call
from .team import assistant, requests, stored, texts, user

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "plantedsecret"


@pytest.fixture
def session():
    session = DjangoSession("s")
    asyncio.run(session.add_items([user("a"), user("b"), user("c")]))
    return session


@pytest.mark.parametrize(
    ("position", "left"),
    [(0, "?bc"), (2, "ab?"), (-1, "ab?"), (-3, "?bc")],
)
async def test_an_item_is_found_by_its_position(session, position, left):
    await session.redact_item(position, "?")

    assert "".join(texts(await session.get_items())) == left
    assert "".join(texts(await DjangoSession("s").get_items())) == left


@pytest.mark.parametrize("position", [3, -4, 1000])
async def test_where_there_is_no_item_nothing_is_redacted(session, position):
    with pytest.raises(SessionNotFoundError, match=f"'s' has no item {position}"):
        await session.redact_item(position, "?")
    with pytest.raises(SessionNotFoundError, match="'other' has no item 0"):
        await DjangoSession("other").redact_item(0, "?")

    assert "".join(texts(await session.get_items())) == "abc"
    assert not await arun_orm(Session.objects.filter(session_id="other").exists)


async def test_a_corrupt_item_lets_no_other_be_taken_for_it(session):
    damaged = await arun_orm(SessionMessage.objects.get, message_id=1)
    damaged.message = CorruptPayload("{")
    await arun_orm(damaged.save, update_fields=["message"])

    for position in (1, -2, -3):
        with pytest.raises(SessionNotFoundError):
            await session.redact_item(position, "?")
    await session.redact_item(-1, "?")
    assert "".join(texts(await session.get_items())) == "a?"


async def test_a_run_goes_on_with_what_was_redacted():
    """The question, the output of a tool and the answer hold the secret; the calls stay paired."""
    first = assistant(call("add", a=1, b=1), f"It is {SECRET}.")
    await Runner.run(first, f"My card is {SECRET}", session=DjangoSession("s"))
    session = DjangoSession("s")
    await session.add_items(
        [{"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": SECRET}]}]
    )
    items: Any = await session.get_items()

    await session.redact_item(0, "My card is [CARD]")
    await session.redact_item(1, {**items[1], "arguments": "{}"})
    await session.redact_item(2, "[removed]")
    await session.redact_item(3, "It is [CARD].")
    await session.redact_item(-1, {"type": "reasoning", "id": "rs_1", "summary": []})

    after = assistant()
    await Runner.run(after, "And now?", session=DjangoSession("s"))
    given: Any = requests(after)[0]
    assert texts(given[:4]) == [
        "My card is [CARD]",
        "call add",
        "output [removed]",
        "It is [CARD].",
    ]
    assert given[1]["call_id"] == given[2]["call_id"] == items[1]["call_id"]
    assert {**given[3], "content": None} == {**items[3], "content": None}
    assert [part["type"] for part in given[3]["content"]] == ["output_text"]
    assert await arun_orm(traces) == []


def traces() -> list[str]:
    return columns_containing(SECRET) + files_containing(SECRET)


@pytest.mark.parametrize(
    ("item", "redacted"),
    [
        (
            {"role": "user", "content": [{"type": "input_text", "text": SECRET}]},
            {"role": "user", "content": [{"type": "input_text", "text": "?"}]},
        ),
        (
            {"type": "message", "role": "developer", "content": SECRET, "extra": SECRET},
            {"type": "message", "role": "developer", "content": "?"},
        ),
        (
            {"role": "tool", "tool_call_id": "call_1", "content": SECRET},
            {"role": "tool", "tool_call_id": "call_1", "content": "?"},
        ),
        (
            {"type": "function_call_output", "call_id": "call_1", "output": [{"text": SECRET}]},
            {"type": "function_call_output", "call_id": "call_1", "output": "?"},
        ),
    ],
)
async def test_a_text_leaves_nothing_but_the_frame(item, redacted):
    session = DjangoSession("s")
    await session.add_items([item])
    await session.redact_item(-1, "?")

    assert await session.get_items() == [redacted]
    assert await arun_orm(columns_containing, SECRET) == []


@pytest.mark.parametrize(
    ("item", "replacement", "why"),
    [
        ({"type": "reasoning", "summary": []}, "?", "complete replacement"),
        (["no object"], "?", "complete replacement"),
        ({"role": "assistant", "content": None, "tool_calls": [{}]}, "?", "complete replacement"),
        (user("a"), {"role": "assistant", "content": "?"}, "must keep its role"),
        (
            {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_2", "output": "?"},
            "must keep its type and call_id",
        ),
        (user("a"), ["?"], "must be dicts"),
        (user("a"), {"role": "user", "content": object()}, "neither JSON nor bytes"),
    ],
)
async def test_what_would_break_the_conversation_is_refused(item, replacement, why):
    session = DjangoSession("s")
    await session.add_items([item])
    with pytest.raises(PayloadError, match=why):
        await session.redact_item(0, replacement)

    assert await session.get_items() == [item]
    assert (await arun_orm(Session.objects.get)).redaction_epoch == 0


async def test_the_session_knows_how_often_it_was_redacted(session):
    await session.redact_item(0, "?")
    await session.redact_item(0, "!")

    assert (await arun_orm(Session.objects.get)).redaction_epoch == 2
    assert texts(await arun_orm(stored)) == ["!", "b", "c"]
