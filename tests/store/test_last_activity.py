"""An append moves a session's last activity only if that is some seconds old."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import Usage
from tests.adapters.openai_agents.team import user

pytestmark = pytest.mark.django_db(transaction=True)


def seconds_ago(seconds: float) -> datetime:
    moment = timezone.now() - timedelta(seconds=seconds)
    Session.objects.update(last_activity_at=moment, updated_at=moment)
    return moment


def add_items(count: int) -> None:
    asyncio.run(DjangoSession("s").add_items([user("Hi")] * count))


def append(count: int) -> None:
    store = SessionStore()
    store.append_many(store.agents.open(store.open("s")), [user("Hi")] * count)


def append_at_once(count: int) -> None:
    async def talk() -> None:
        sessions = [DjangoSession("s"), DjangoSession("t"), DjangoSession("u")]
        await asyncio.gather(*(each.add_items([user("Hi")] * count) for each in sessions))

    asyncio.run(talk())


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("write", [append, add_items, append_at_once])
def test_it_stays_within_the_seconds_and_moves_after_them_and_every_message_is_counted(
    write, count
):
    write(count)
    before = seconds_ago(3)

    write(count)

    session = Session.objects.get(session_id="s")
    assert (session.last_activity_at, session.message_count) == (before, 2 * count)
    assert session.updated_at > before

    before = seconds_ago(6)

    write(count)

    session.refresh_from_db()
    assert session.message_count == SessionMessage.objects.filter(session=session).count()
    assert timezone.now() - session.last_activity_at < timedelta(seconds=5)


def test_the_end_of_a_turn_moves_it_at_once():
    store = SessionStore()
    session = store.open("s")
    before = seconds_ago(1)

    store.touch(session.id, Usage(1))

    assert Session.objects.get().last_activity_at > before


def test_who_asks_for_what_was_active_since_a_time_misses_no_later_message():
    append(1)
    before = seconds_ago(4)
    asked = before + timedelta(seconds=3)

    append(1)

    assert Session.objects.get().last_activity_at < asked
    assert Session.objects.active_since(asked).exists()
    assert not Session.objects.active_since(timezone.now() + timedelta(seconds=6)).exists()
