"""Rows that somebody damaged, and items that are refused: the rest goes on."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from agents import Runner, SessionSettings
from django.db import connection

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.db.bridge import arun_orm
from django_agent_sessions.exceptions import PayloadError, SessionNotFoundError
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.testing import columns_containing, error_texts

from .team import assistant, requests, stored, texts, user

pytestmark = pytest.mark.django_db(transaction=True)


def damage(*positions: int) -> None:
    """Cuts the text of items off, as a store that truncates would."""
    table = connection.ops.quote_name(SessionMessage._meta.db_table)
    for position in positions:
        with connection.cursor() as cursor:
            cursor.execute(
                f"UPDATE {table} SET message = %s WHERE message_id = %s",
                ['{"role": "user", "content": "plantedsecr', position],
            )
            assert cursor.rowcount == 1


@pytest.fixture
def session():
    return DjangoSession("s")


@pytest.mark.parametrize("positions", [(0,), (2, 3), (5,), (0, 2, 4), (1, 2, 3, 4, 5)])
async def test_corrupt_items_hide_no_others_and_a_limit_counts_the_others(
    session, positions, caplog
):
    await session.add_items([user(text) for text in "abcdef"])
    await arun_orm(damage, *positions)
    sound = "".join(text for number, text in enumerate("abcdef") if number not in positions)

    for reader in (session, DjangoSession("s")):
        assert "".join(texts(await reader.get_items())) == sound
        for limit in range(1, 8):
            assert "".join(texts(await reader.get_items(limit))) == sound[-limit:]
        assert await reader.get_items(limit=0) == []
        reader.session_settings = SessionSettings(limit=2)
        assert "".join(texts(await reader.get_items())) == sound[-2:]

    told = [record for record in caplog.records if record.name == "django_agent_sessions"]
    assert {record.levelno for record in told} == {logging.WARNING}
    assert "plantedsecr" not in caplog.text


async def test_a_run_goes_on_behind_a_corrupt_item(session):
    await session.add_items([user("a"), user("b")])
    await arun_orm(damage, 1)

    agent = assistant("Fine.")
    await Runner.run(agent, "c", session=session)

    assert texts(requests(agent)[0]) == ["a", "c"]
    assert texts(await session.get_items()) == ["a", "c", "Fine."]


async def test_a_corrupt_item_is_popped_over_and_cleared(session):
    await session.add_items([user(text) for text in "abcd"])
    await arun_orm(damage, 1, 3)

    assert [await session.pop_item() for _ in range(3)] == [user("c"), user("a"), None]
    assert (await arun_orm(Session.objects.get)).message_count == 0
    await session.add_items([user("e"), user("f")])
    await arun_orm(damage, 0, 1)
    assert await session.get_items() == []
    await session.clear_session()
    assert not await arun_orm(SessionMessage.objects.exists)


async def test_no_item_is_redacted_in_the_place_of_another(session):
    """Behind a corrupt item, places in what was read are not those in the conversation."""
    await session.add_items([user(text) for text in "abcd"])
    await arun_orm(damage, 1)

    for position in (1, 2, 3, -3, -4):
        with pytest.raises(SessionNotFoundError):
            await session.redact_item(position, "?")
    assert texts(await session.get_items()) == ["a", "c", "d"]
    await session.redact_item(0, "A")
    await session.redact_item(-2, "C")
    assert texts(await session.get_items()) == ["A", "C", "d"]


BAD: dict[str, Any] = {
    "object": object(),
    "key": {(1,): "a"},
    "integer": 10**5000,
    "set": {"a"},
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
async def test_a_refused_batch_leaves_everything_usable(session, bad):
    batch: list[Any] = [user("good"), {"role": "user", "content": "plantedsecret", "data": bad}]
    for before in ([], ["a"]):
        with pytest.raises(PayloadError) as refusal:
            await session.add_items(batch)
        assert "plantedsecret" not in error_texts(refusal.value)
        assert texts(await session.get_items()) == before
        await session.add_items([user("a")])
        assert texts(await arun_orm(stored)) == [*before, "a"]

    assert await arun_orm(columns_containing, "plantedsecret") == []
    assert (await arun_orm(Session.objects.get)).message_count == 2


async def test_metadata_that_is_refused_makes_no_session():
    session = DjangoSession("s", metadata={"when": object()})
    with pytest.raises(PayloadError):
        await session.add_items([user("a")])

    assert not await arun_orm(Session.objects.exists)
    assert await session.get_items() == []
