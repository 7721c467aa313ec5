"""One look for all who wait."""

from __future__ import annotations

import asyncio
import gc

import pytest
from asgiref.sync import sync_to_async
from django.db import Error, connections
from django.test import override_settings
from django.utils.connection import ConnectionDoesNotExist

from django_agent_sessions.events import hub as hubs
from django_agent_sessions.events.hub import watch_session
from django_agent_sessions.events.session_states import read_states
from django_agent_sessions.rest.events import StreamLimit

pytestmark = pytest.mark.django_db(transaction=True)

SOON = override_settings(AGENT_SESSIONS={"EVENTS_POLL_SECONDS": 0.05})


def in_a_loop(work) -> None:
    with SOON:
        asyncio.run(work())


async def said(talk, text: str) -> None:
    def say() -> None:
        talk.say(text)
        connections.close_all()

    await sync_to_async(say)()


def looks_of(monkeypatch) -> list[int]:
    """How many sessions each look was at."""
    looks: list[int] = []
    real = read_states

    def counting(using, sessions):
        looks.append(len(sessions))
        return real(using, sessions)

    monkeypatch.setattr(hubs, "read_states", counting)
    return looks


def test_only_those_are_woken_in_whose_session_something_happened(talk, ada):
    from .conftest import Speaking

    other = Speaking(ada, "other")

    async def work() -> None:
        with (
            watch_session(talk.id) as one,
            watch_session(talk.id) as two,
            watch_session(other.id) as three,
        ):
            # The first look wakes everybody: what was before it is not known.
            for watch in (one, two, three):
                assert await watch.happened(10)
            await said(talk, "Hello")
            assert await one.happened(10)
            assert await two.happened(10)
            assert not await three.happened(0.3)

    in_a_loop(work)


def test_all_sessions_are_looked_at_in_one_statement_and_nothing_when_nobody_waits(
    talk, monkeypatch
):
    looks = looks_of(monkeypatch)

    async def work() -> None:
        with watch_session(talk.id) as watch, watch_session(talk.id):
            await watch.happened(10)
        before = len(looks)
        await asyncio.sleep(0.3)
        assert len(looks) <= before + 1

    in_a_loop(work)
    assert set(looks) == {1}


def test_a_database_that_is_away_ends_nothing(talk, monkeypatch, caplog):
    real = read_states
    failing = True

    def broken(using, sessions):
        if failing:
            raise Error("secret words of a driver")
        return real(using, sessions)

    monkeypatch.setattr(hubs, "read_states", broken)

    async def work() -> None:
        nonlocal failing
        with watch_session(talk.id) as watch:
            assert not await watch.happened(0.4)
            failing = False
            assert await watch.happened(10)

    in_a_loop(work)
    assert caplog.text.count("could not poll for events") == 1
    assert "secret" not in caplog.text


def test_each_loop_has_a_look_of_its_own_and_leaves_nothing_behind(talk):
    async def work() -> None:
        with watch_session(talk.id) as watch:
            assert await watch.happened(10)

    before = len(hubs._hubs)
    for _ in range(3):
        in_a_loop(work)
    gc.collect()
    assert len(hubs._hubs) <= before


def test_a_place_that_nobody_used_is_given_back():
    places = StreamLimit()
    first, second = places.take("ada", 2), places.take("ada", 2)
    assert places.take("ada", 2) is None
    assert places.take("bob", 2) is not None
    assert first is not None
    first.give_back()
    first.give_back()
    third = places.take("ada", 2)
    assert third is not None
    assert places.take("ada", 2) is None
    del second
    gc.collect()
    assert places.take("ada", 2) is not None


def test_who_cannot_begin_to_wait_leaves_nothing_behind(talk):
    if connections["default"].vendor != "postgresql":
        pytest.skip("only PostgreSQL has somebody to listen to")

    async def work() -> None:
        with pytest.raises(ConnectionDoesNotExist), watch_session(talk.id):
            raise AssertionError
        assert hubs._hubs[asyncio.get_running_loop()] == {}

    with override_settings(AGENT_SESSIONS={"LISTEN_DATABASE": "nowhere"}):
        asyncio.run(work())
