"""Many agents of a process at once: their messages share commits, and nothing else."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from django.db import connection
from strands.hooks.events import MessageAddedEvent

from django_agent_sessions import arun_orm
from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.exceptions import PayloadError, SessionNotFoundError
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.store import SessionStore
from tests.adapters.strands.agents import build, manager_of
from tests.grouping import one_thread, recorded, together
from tests.store.cutting import commit_lost, cut
from tests.texts import text_of

__all__ = ["one_thread"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("one_thread")]

groups = pytest.mark.skipif(connection.vendor == "mysql", reason="there each append is a commit")

NUMBERS = range(4)
CARD = "4111 1111 1111 1111"


class Items:
    """A conversation of the OpenAI Agents SDK."""

    def __init__(self, number: int) -> None:
        self.session_id = f"s{number}"
        self.session = DjangoSession(self.session_id)

    def say(self, text: Any) -> Any:
        return self.session.add_items([{"role": "user", "content": text}])

    async def memory(self) -> list[tuple[int, Any]]:
        return [
            (position, message["content"])
            for (_, position), message in sorted(self.session._memory._by_position().items())
        ]


class Hooks:
    """A conversation of Strands."""

    def __init__(self, number: int) -> None:
        self.session_id = f"s{number}"
        self.agent = build("hello", session_id=self.session_id)

    async def say(self, text: Any) -> None:
        message: Any = {"role": "user", "content": [{"text": text}]}
        self.agent.messages.append(message)
        event = MessageAddedEvent(agent=self.agent, message=message)
        await self.agent.hooks.invoke_callbacks_async(event)

    async def memory(self) -> list[tuple[int, Any]]:
        stored = manager_of(self.agent)._work.conversation(self.agent).all_stored()
        return [(one.position, one.message["content"][0]["text"]) for one in stored]


@pytest.fixture(params=[Items, Hooks])
async def conversations(request) -> list[Any]:
    made = [await arun_orm(request.param, number) for number in NUMBERS]
    for one in made:
        await one.say("first")
    return made


def rows(number: int) -> list[tuple[int, str]]:
    found = SessionMessage.objects.filter(session__session_id=f"s{number}").order_by("message_id")
    return [(row.message_id, text_of(row)) for row in found]


async def all_rows() -> list[list[tuple[int, str]]]:
    return [await arun_orm(rows, number) for number in NUMBERS]


def said(*texts: str) -> list[tuple[int, str]]:
    return list(enumerate(texts))


@groups
async def test_messages_of_several_agents_are_one_commit(conversations):
    statements: list[str] = []

    await together(*(one.say("a") for one in conversations), within=partial(recorded, statements))

    if connection.vendor == "postgresql":
        assert len(statements) == 1
    else:
        assert len([sql for sql in statements if sql.startswith("BEGIN")]) == 1
        inserts = [sql for sql in statements if sql.startswith("INSERT")]
        assert len(inserts) == len(NUMBERS)
    assert await all_rows() == [said("first", "a")] * len(NUMBERS)
    assert [await one.memory() for one in conversations] == [said("first", "a")] * len(NUMBERS)


async def test_a_bad_message_fails_alone_and_positions_stay_right(conversations):
    outcomes = await together(
        *(one.say(object() if number == 1 else "a") for number, one in enumerate(conversations))
    )
    for one in conversations:
        await one.say("b")

    assert [type(outcome) for outcome in outcomes if outcome] == [PayloadError]
    expected = [said("first", "a", "b")] * len(NUMBERS)
    expected[1] = said("first", "b")
    assert await all_rows() == expected
    assert [await one.memory() for one in conversations] == expected


@groups
async def test_a_commit_with_an_unknown_outcome_doubles_and_loses_nothing(conversations):
    lost: Any = commit_lost
    if connection.vendor == "postgresql":
        lost = partial(cut, "WITH wanted", done=True)

    outcomes = await together(*(one.say("a") for one in conversations), within=lost)
    for one in conversations:
        await one.say("b")

    assert outcomes == [None] * len(NUMBERS)
    assert await all_rows() == [said("first", "a", "b")] * len(NUMBERS)
    assert [await one.memory() for one in conversations] == await all_rows()


async def test_a_redaction_elsewhere_is_applied_to_the_one_that_it_concerns(conversations):
    for one in conversations:
        await one.say(CARD)

    def redact_card() -> None:
        redact(Session.objects.get(session_id="s2").pk, Find(CARD), reason="asked")

    await arun_orm(redact_card)
    await together(*(one.say(f"again {CARD}") for one in conversations))

    found = await all_rows()
    assert [CARD in text for _, text in (rows[-1] for rows in found)] == [True, True, False, True]
    assert [len(rows) for rows in found] == [3] * len(NUMBERS)


async def test_a_deleted_session_is_the_error_of_one_or_is_opened_again(conversations):
    assert await SessionStore().adelete("s1")

    outcomes = await together(*(one.say("a") for one in conversations))

    found = await all_rows()
    assert [found[number] for number in (0, 2, 3)] == [said("first", "a")] * 3
    if isinstance(conversations[0], Items):
        assert found[1] == said("a")
    else:
        assert isinstance(outcomes[1], SessionNotFoundError)


async def test_a_cancelled_append_settles_and_harms_no_other(conversations):
    def cancel(tasks: list[asyncio.Task[Any]]) -> None:
        tasks[2].cancel()

    outcomes = await together(*(one.say("a") for one in conversations), waiting=cancel)
    for one in conversations:
        await one.say("b")

    assert isinstance(outcomes[2], asyncio.CancelledError)
    assert await all_rows() == [said("first", "a", "b")] * len(NUMBERS)


async def test_first_messages_that_wait_together_create_their_sessions():
    made = [await arun_orm(Items, number) for number in NUMBERS]

    await together(*(one.say("a") for one in made), *(one.say("b") for one in made))

    assert await all_rows() == [said("a", "b")] * len(NUMBERS)


@groups
async def test_a_message_that_a_group_left_is_written_once_and_before_the_next(conversations):
    """Of two calls of one agent, the second waits for what the first has to write alone."""
    lost: Any = commit_lost
    if connection.vendor == "postgresql":
        lost = partial(cut, "WITH wanted", done=True)
    one = conversations[0]

    said_by_all = [one.say("left") for one in conversations]
    outcomes = await together(*said_by_all, one.say("next"), within=lost)

    assert outcomes == [None] * (len(NUMBERS) + 1)
    assert await arun_orm(rows, 0) == said("first", "left", "next")
    assert await one.memory() == said("first", "left", "next")
