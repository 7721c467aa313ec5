"""What is in the id of an event, and who may come back with it."""

from __future__ import annotations

import base64
import json
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from django_agent_sessions.events import cursor as cursors
from django_agent_sessions.events import event_pages
from django_agent_sessions.events.cursor import (
    MAX_REDACTIONS,
    AgentPosition,
    Cursor,
    InvalidCursorError,
    RedactionScan,
)
from django_agent_sessions.events.event_types import MessageEvent
from django_agent_sessions.models import Session, SessionAgent, SessionMessage

from .conftest import Speaking, payload
from .following import Follower, stored

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "text",
    ["", "x", "é", "e30", base64.b64encode(b"[" * 5000).decode(), "A" * 40_000,
     base64.urlsafe_b64encode(b'{"s":1,"e":1,"h":"","a":[],"r":[]}').decode()],
)  # fmt: skip
def test_what_is_no_cursor_is_refused(text):
    with pytest.raises(InvalidCursorError):
        Cursor.decode(text, UUID(int=0))


@given(st.binary(max_size=200))
def test_garbage_is_refused(value):
    with pytest.raises(InvalidCursorError):
        Cursor.decode(base64.urlsafe_b64encode(value).decode(), UUID(int=0))


@given(
    st.dictionaries(
        st.sampled_from("sehrapf"),
        st.recursive(
            st.one_of(st.none(), st.integers(), st.text(max_size=9), st.floats(), st.booleans()),
            lambda inner: st.one_of(
                st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=9), inner, max_size=3)
            ),
            max_leaves=8,
        ),
    )
)
def test_a_cursor_of_the_wrong_shape_is_refused(value):
    text = base64.urlsafe_b64encode(json.dumps(value).encode()).decode()
    with pytest.raises(InvalidCursorError):
        Cursor.decode(text, UUID(int=0))


def test_a_cursor_of_another_session_is_refused_and_a_changed_one_reaches_nothing_else(talk, ada):
    other = Speaking(ada, "other")
    other.say("of the other session")
    text = Follower(other).last
    with pytest.raises(InvalidCursorError):
        Cursor.decode(text, talk.id)
    value = json.loads(base64.urlsafe_b64decode(text + "=="))
    value["s"] = json.loads(base64.urlsafe_b64decode(Follower(talk).last + "=="))["s"]
    forged = base64.urlsafe_b64encode(json.dumps(value).encode()).decode()
    follower = Follower(talk)
    talk.say("of this session")
    follower.last = forged.rstrip("=")
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
    many_digits = AgentPosition(
        2**31 - 1, tuple((2**31 - 1, f"{row:08}") for row in range(4)), "87654321"
    )
    longest = Cursor(
        session=cursors.digest(crowd.id),
        epoch=2**31 - 1,
        head="12345678",
        agents={f"{number:08}": many_digits for number in range(900)},
        redactions=tuple(UUID(int=number) for number in range(MAX_REDACTIONS)),
        redaction_scan=RedactionScan(UUID(int=5), UUID(int=6), 2**31 - 1),
    )
    text = longest.encode()
    assert len(text) <= cursors.MAX_CURSOR_LENGTH
    assert Cursor.decode(text, crowd.id).encode() == text


def test_who_comes_back_to_many_agents_hears_of_what_came_and_of_nothing_else(crowd):
    follower = Follower(crowd)
    assert follower.follow() == []
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
    cursor = event_pages.current_cursor(session)
    assert cursor is not None
    crowd.agents["a"] = crowd.store.agents.open(crowd.session, "agent 7", dialect="strands")
    crowd.say("once more")
    page = event_pages.read_page(session, cursor)
    assert page is not None
    (event,) = page.events
    assert isinstance(event, MessageEvent)
    assert event.row.message_id == 3


def test_many_agents_take_no_more_statements_than_few(crowd):
    session = Session.objects.get(pk=crowd.id)
    with CaptureQueriesContext(connection) as queries:
        cursor = event_pages.current_cursor(session)
    assert len(queries) == 3
    start = event_pages.first_cursor(session)
    assert start is not None
    with CaptureQueriesContext(connection) as queries:
        page = event_pages.read_page(session, start)
    assert page is not None
    assert len(page.events) == 50
    assert len(queries) < 10
    assert cursor is not None
