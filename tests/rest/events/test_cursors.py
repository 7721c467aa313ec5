"""What is in the id of an event, and who may come back with it."""

from __future__ import annotations

import re
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from django_agent_sessions.events import cursor as cursors
from django_agent_sessions.events import reading
from django_agent_sessions.events.cursor import (
    Cursor,
    InvalidCursorError,
    MessagePosition,
    RedactionPosition,
)
from django_agent_sessions.events.event_types import MessageEvent
from django_agent_sessions.models import Session, SessionAgent, SessionMessage

from .conftest import Speaking, payload
from .following import Follower, stored

pytestmark = pytest.mark.django_db


ONE, OTHER = UUID(int=1), UUID(int=2)
SHAPES = st.from_regex(cursors._TEXT, fullmatch=True)


@pytest.mark.parametrize(
    "text",
    ["", "x", "é", f"{ONE.hex}.1", f"{ONE.hex}.01.", f"{ONE.hex}.{2**31}.", f"{ONE.hex}.1.\n",
     f"{ONE.hex}.1.{OTHER.hex}", f"{ONE.hex}.1.{OTHER.hex}:1:{2**31}", f"{ONE}.1.",
     f"{ONE.hex}.1.{OTHER.hex}:1,{OTHER.hex}:2", f"{ONE.hex}.1.{OTHER.hex}:1," * 100, "A" * 40_000],
)  # fmt: skip
def test_what_is_no_cursor_is_refused(text):
    with pytest.raises(InvalidCursorError):
        Cursor.decode(text, ONE)


@given(st.one_of(st.text(max_size=200), SHAPES, SHAPES.map(lambda text: text[1:])))
def test_garbage_is_refused(value):
    with pytest.raises(InvalidCursorError):
        Cursor.decode(value, UUID(int=2**128 - 7))


@given(SHAPES)
def test_what_is_taken_for_a_cursor_is_written_as_it_came(text):
    session = UUID(text[:32])
    try:
        cursor = Cursor.decode(text, session)
    except InvalidCursorError:
        return
    assert cursor.encode() == text


def test_a_cursor_is_read_by_a_person(talk):
    talk.say("one")
    talk.say("two")
    talk.say("three", "b")
    talk.pop("b")
    talk.say("another three", "b")
    talk.change(1, "grown")
    a, b = talk.agents["a"].id.hex, talk.agents["b"].id.hex
    assert Follower(talk).last == f"{talk.id.hex}.1.{a}:1:1,{b}:0"


def test_a_cursor_of_another_session_is_refused_and_a_changed_one_reaches_nothing_else(talk, ada):
    other = Speaking(ada, "other")
    other.say("of the other session")
    text = Follower(other).last
    with pytest.raises(InvalidCursorError):
        Cursor.decode(text, talk.id)
    follower = Follower(talk)
    talk.say("of this session")
    follower.last = text.replace(other.id.hex, talk.id.hex)
    assert follower.follow() == [("reset", "agent removed")]
    assert [text for _, _, text in follower.screen.values()] == ["of this session"]


@pytest.fixture
def crowd(talk: Speaking) -> Speaking:
    """A session of three hundred agents more, each of which said three things."""
    many(talk, 300)
    return talk


def many(talk: Speaking, count: int) -> None:
    agents = SessionAgent.objects.bulk_create(
        SessionAgent(session_id=talk.id, agent_id=f"agent {number}", dialect="strands")
        for number in range(count)
    )
    SessionMessage.objects.bulk_create(
        SessionMessage(session_id=talk.id, agent=agent, message_id=position, message=payload("hi"))
        for position in range(3)
        for agent in agents
    )


def test_the_id_of_an_event_is_bounded_however_many_agents_there_are(crowd):
    follower = Follower(crowd, "start")
    follower.follow()
    assert len(follower.last) <= cursors.MAX_CURSOR_LENGTH == 4096
    assert follower.screen == stored(crowd)
    longest = Cursor(
        crowd.id,
        2**31 - 1,
        {UUID(int=number): MessagePosition(2**31 - 1, 2**31 - 1) for number in range(900)},
        RedactionPosition(2**31 - 1, UUID(int=6)),
    )
    text = longest.encode()
    assert len(text) <= cursors.MAX_CURSOR_LENGTH
    assert Cursor.decode(text, crowd.id).encode() == text


def test_who_comes_back_to_many_agents_hears_of_what_came_and_of_nothing_else(crowd):
    follower = Follower(crowd)
    assert follower.follow() == []
    for key in "ab":
        name = f"late {key}"
        crowd.agents[key] = crowd.store.agents.open(crowd.session, name, dialect="strands")
    crowd.say("by a new one", "b")
    assert follower.follow() == [("new", "by a new one")]
    crowd.say("by another", "a")
    crowd.say("by the new one again", "b")
    assert follower.follow() == [("new", "by another"), ("new", "by the new one again")]


@pytest.mark.parametrize("what", ["said", "popped", "grown", "redacted", "gone"])
def test_what_happens_to_one_of_many_agents_is_told_or_makes_the_client_read_anew(crowd, what):
    follower = Follower(crowd)
    agent = crowd.store.agents.open(crowd.session, "agent 7", dialect="strands")
    crowd.agents["a"] = agent
    if what == "said":
        crowd.say("once more")
    elif what == "popped":
        crowd.pop()
    elif what == "grown":
        crowd.change(2, "grown")
    elif what == "redacted":
        crowd.redact(2)
    else:
        SessionAgent.objects.filter(pk=agent.id).delete()
    assert follower.follow() == [("reset", "many agents")]
    assert follower.follow() == []


def test_a_stream_that_lasts_tells_of_each_of_many_agents(crowd):
    session = Session.objects.get(pk=crowd.id)
    cursor = reading.current_cursor(session)
    assert cursor is not None
    crowd.agents["a"] = crowd.store.agents.open(crowd.session, "agent 7", dialect="strands")
    crowd.say("once more")
    page = reading.read_events(session, cursor)
    assert page is not None
    (event,) = page.events
    assert isinstance(event, MessageEvent)
    assert event.row.message_id == 3


def test_many_agents_take_no_more_statements_than_few(crowd):
    session = Session.objects.get(pk=crowd.id)
    with CaptureQueriesContext(connection) as queries:
        cursor = reading.current_cursor(session)
    assert len(queries) == 1
    start = reading.first_cursor(session)
    assert start is not None
    with CaptureQueriesContext(connection) as queries:
        page = reading.read_events(session, start)
    assert page is not None
    assert len(page.events) == 50
    assert len(queries) < 10
    assert cursor is not None


def test_the_id_of_an_event_holds_keys_and_numbers_and_no_digest_of_what_was_said(ada):
    talk = Speaking(ada, "plantedname")
    follower = Follower(talk, "start")
    ids = [follower.last]
    for step in (
        lambda: talk.say("plantedtext"),
        lambda: talk.say("plantedtext", "b"),
        lambda: talk.change(0, "plantedtext grows", "b"),
        lambda: talk.redact(0),
        lambda: talk.store.sessions.update(talk.id, title="plantedtitle"),
        lambda: talk.pop(),
    ):
        step()
        follower.follow()
        ids.append(follower.last)
    keys = {
        key.hex
        for model in (Session, SessionAgent, SessionMessage)
        for key in model._base_manager.values_list("pk", flat=True)
    }
    parts = {part for text in ids for part in re.split(r"[.,:~-]", text)}
    # A digest, with which guesses of the text could be tested, would be neither of them.
    assert {part for part in parts - keys if not re.fullmatch(r"[0-9]{0,4}", part)} == set()
    assert talk.id.hex in parts
