"""What comes after a cursor, whatever was written in between."""

from __future__ import annotations

import base64
import json
from typing import Any
from unittest import mock
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_agent_sessions import redaction
from django_agent_sessions.events import cursor as cursors
from django_agent_sessions.events import reading
from django_agent_sessions.events.cursor import (
    REDACTIONS,
    Cursor,
    InvalidCursorError,
    Pass,
    Place,
)
from django_agent_sessions.events.pages import (
    Event,
    MessageEvent,
    RemovedEvent,
    ResetEvent,
    SessionEvent,
)
from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from django_agent_sessions.owners import EVERYBODY
from django_agent_sessions.store import SessionStore

from .conftest import Speaking, payload

pytestmark = pytest.mark.django_db


class Follower:
    """A client that keeps nothing but what it was told and the last event's id."""

    def __init__(self, talk: Speaking, start: str = "now") -> None:
        self.talk = talk
        self.session = Session.objects.get(pk=talk.id)
        cursor = reading.now(self.session) if start == "now" else reading.beginning(self.session)
        assert cursor is not None
        self.last = cursor.encode()
        self.screen: dict[tuple[UUID, int], tuple[UUID, int, str]] = {}
        self.may_repeat = False

    def follow(self, *, count: int = 50, drop_after: int | None = None) -> list[tuple[str, str]]:
        """Reads until nothing comes, or until the line breaks after some events."""
        told: list[tuple[str, str]] = []
        for _ in range(1000):
            cursor = Cursor.decode(self.last, self.talk.id)
            page = reading.read(self.session, cursor, count=count)
            assert page is not None
            for event in page.events:
                if drop_after is not None and len(told) >= drop_after:
                    return told
                told.append(self._apply(event))
                self.last = event.cursor.encode()
            self.last = page.cursor.encode()
            if not page.more:
                return told
        raise AssertionError("it tells for ever")

    def _apply(self, event: Event) -> tuple[str, str]:
        if isinstance(event, RemovedEvent):
            for agent, position in list(self.screen):
                if agent == event.agent and position >= event.position:
                    del self.screen[agent, position]
            return "removed", str(event.position)
        if isinstance(event, SessionEvent):
            return "session", event.head.title
        if isinstance(event, ResetEvent):
            self.screen = stored(self.talk)
            return "reset", event.reason.value
        row = event.row
        text = row.payload["content"][0]["text"]
        shown = (row.id, row.revision, text)
        before = self.screen.get((row.agent_id, row.message_id))
        assert before != shown or self.may_repeat, "it was told twice"
        self.screen[row.agent_id, row.message_id] = shown
        return event.change.value, text


def stored(talk: Speaking) -> dict[tuple[UUID, int], tuple[UUID, int, str]]:
    found = {}
    for agent in SessionAgent.objects.filter(session=talk.id):
        for row in agent.messages.filter(branch=0):
            content = row.redact_message or row.message
            shown = (row.pk, row.revision, content["content"][0]["text"])
            found[agent.pk, row.message_id] = shown
    return found


def test_what_is_there_is_not_told_and_what_comes_is_told_once(talk):
    talk.say("before")
    follower = Follower(talk)
    assert follower.follow() == []
    talk.say("one")
    talk.say("two", "b")
    assert follower.follow() == [("new", "one"), ("new", "two")]
    assert follower.follow() == []


def test_a_full_replay_comes_in_pages_in_the_order_of_time(talk):
    for number in range(25):
        talk.say(str(number), "ab"[number % 3 == 0])
    told = Follower(talk, "start").follow(count=4)
    assert told == [("new", str(number)) for number in range(25)]


def test_a_message_with_an_older_key_that_comes_later_is_not_lost(talk):
    from django_agent_sessions.records import NewMessage

    older = NewMessage(payload("made before, written after"))
    talk.say("first", "b")
    follower = Follower(talk)
    talk.say("second", "b")
    follower.follow()
    talk.store.append(talk.agents["a"], older)
    assert follower.follow() == [("new", "made before, written after")]


def test_a_last_message_that_grows_is_changed_also_if_another_follows_at_once(talk):
    talk.say("grows")
    follower = Follower(talk)
    talk.change(0, "grows and grows")
    talk.say("next")
    assert follower.follow() == [("changed", "grows and grows"), ("new", "next")]


def test_what_took_the_place_of_a_popped_message_is_told(talk):
    for text in ("one", "two", "three"):
        talk.say(text)
    follower = Follower(talk)
    talk.pop()
    talk.say("another three")
    assert follower.follow() == [("removed", "2"), ("new", "another three")]
    talk.pop()
    talk.pop()
    assert follower.follow() == [("removed", "1")]
    assert follower.follow() == []


def test_what_a_rewind_sets_aside_is_told_as_removed(talk):
    for text in "abcd":
        talk.say(text)
    follower = Follower(talk)
    talk.store.rewind(talk.agents["a"], 1)
    assert follower.follow() == [("removed", "2")]
    talk.say("other")
    assert follower.follow() == [("new", "other")]
    assert follower.screen == {key: row for key, row in stored(talk).items() if key[1] == 2}


def test_who_missed_a_rewind_and_a_switch_back_hears_of_the_copies(talk):
    for text in "abcdef":
        talk.say(text)
    follower = Follower(talk, "start")
    follower.follow()
    agent = talk.agents["a"]
    side = talk.store.rewind(agent, 1)
    talk.store.switch_branch(agent, side.number)
    # The last four rows are the ones of before; those that the branches share are copies.
    told = follower.follow()
    assert told == [("removed", "0"), *(("new", text) for text in "abcdef")]
    assert follower.screen == stored(talk)
    talk.redact(0)
    assert follower.follow() == [("redacted", "***")]
    assert follower.screen == stored(talk)


def test_what_is_said_or_redacted_on_a_side_branch_is_not_told(talk):
    for text in "abc":
        talk.say(text)
    follower = Follower(talk)
    agent = talk.agents["a"]
    made = talk.store.create_branch(agent, upto=2)
    talk.store.append(agent.on_branch(made.number), payload("aside"))
    talk.store.redact_message(agent.on_branch(made.number), 2, payload("***"))
    assert follower.follow() == []
    assert follower.screen == {}


def test_another_branch_that_becomes_the_main_one_is_told_whole(talk):
    for text in "abc":
        talk.say(text)
    follower = Follower(talk, "start")
    follower.follow()
    agent = talk.agents["a"]
    made = talk.store.create_branch(agent, upto=2)
    talk.store.append(agent.on_branch(made.number), payload("x"))
    left = talk.store.switch_branch(agent, made.number)
    assert [text for _, text in follower.follow()] == ["0", "a", "b", "x"]
    talk.store.switch_branch(agent, left.number)
    follower.follow()
    assert follower.screen == stored(talk)


def test_an_emptied_conversation_is_told_as_removed_and_begins_anew(talk):
    for number in range(9):
        talk.say(str(number))
    follower = Follower(talk)
    talk.store.clear(talk.agents["a"])
    assert follower.follow() == [("removed", "0")]
    assert follower.follow() == []
    talk.say("anew")
    assert follower.follow() == [("new", "anew")]


def test_an_older_message_that_is_redacted_is_told_without_its_original(talk):
    for text in ("my secret", "two", "three"):
        talk.say(text)
    follower = Follower(talk)
    talk.redact(0)
    assert follower.follow() == [("redacted", "***")]
    assert follower.follow() == []
    talk.redact(2)
    talk.say("four")
    assert follower.follow() == [("redacted", "***"), ("new", "four")]
    assert follower.follow() == []


def test_a_redaction_of_many_messages_is_told_in_pages_once(talk):
    for number in range(30):
        talk.say(f"secret {number}", "ab"[number % 2])
    follower = Follower(talk)
    redaction.redact(talk.id, redaction.Find("secret"), reason="asked", actor="ada")
    told = follower.follow(count=7)
    assert len(told) == 30
    assert {change for change, _ in told} == {"redacted"}
    assert not any("secret" in text for _, text in told)
    assert follower.follow() == []


def test_many_redactions_are_each_told_once(talk):
    for number in range(REDACTIONS):
        talk.say(str(number))
    follower = Follower(talk)
    for position in range(15):
        talk.redact(position)
    assert len(follower.follow(count=6)) == 15
    for position in range(15, REDACTIONS):
        talk.redact(position)
        assert follower.follow() == [("redacted", "***")]


def test_of_more_redactions_at_once_than_a_cursor_remembers_none_is_lost(talk):
    for number in range(REDACTIONS + 8):
        talk.say(str(number))
    follower = Follower(talk)
    follower.may_repeat = True
    for position in range(REDACTIONS + 5):
        talk.redact(position)
    assert len(follower.follow(count=6)) == REDACTIONS + 5
    for position in range(REDACTIONS + 5, REDACTIONS + 8):
        talk.redact(position)
        assert set(follower.follow(count=6)) == {("redacted", "***")}
        assert (talk.agents["a"].id, position) in follower.screen
    assert follower.follow() == []
    assert follower.screen == stored(talk)


def behind(redaction_of: Any, seconds: int) -> UUID:
    """A key that another writer would make now, whose clock is behind."""
    key = redaction_of.int
    return UUID(int=((key >> 80) - seconds * 1000 << 80) | key % (1 << 80))


@pytest.mark.parametrize("before", [1, 8, REDACTIONS, REDACTIONS + 3])
def test_a_redaction_by_a_writer_whose_clock_is_behind_is_told(talk, before):
    for number in range(before + 2):
        talk.say(str(number))
    follower = Follower(talk)
    follower.may_repeat = before > REDACTIONS
    for position in range(before):
        talk.redact(position)
    follower.follow()
    talk.redact(before)
    late = SessionMessage.objects.get(message_id=before)
    SessionMessage.objects.filter(pk=late.pk).update(redaction=behind(late.redaction, 90))
    assert set(follower.follow()) == {("redacted", "***")}
    assert (talk.agents["a"].id, before) in follower.screen
    assert follower.follow() == []


def test_a_redaction_that_comes_while_others_are_told_in_pages_is_told_too(talk):
    for number in range(9):
        talk.say(str(number))
    follower = Follower(talk)
    for position in range(6):
        talk.redact(position)
    assert len(follower.follow(count=2, drop_after=4)) == 4
    talk.redact(7)
    late = SessionMessage.objects.get(message_id=7)
    SessionMessage.objects.filter(pk=late.pk).update(redaction=behind(late.redaction, 60))
    assert follower.follow(count=2) == [("redacted", "***")] * 3
    assert (talk.agents["a"].id, 7) in follower.screen


def test_what_was_redacted_before_it_was_read_is_new_only(talk):
    follower = Follower(talk, "start")
    for text in ("one", "two", "three"):
        talk.say(text)
    talk.redact(0)
    assert follower.follow() == [("new", "***"), ("new", "two"), ("new", "three")]
    assert follower.follow() == []


def test_a_redaction_that_was_passed_over_is_known_also_if_the_line_breaks_right_then(talk):
    follower = Follower(talk, "start")
    for text in ("one", "two", "three"):
        talk.say(text)
    follower.follow(count=1, drop_after=1)
    talk.redact(1)
    talk.redact(0)
    assert follower.follow(drop_after=1) == [("redacted", "***")]
    assert follower.follow() == [("new", "***"), ("new", "three")]
    talk.redact(2)
    assert follower.follow() == [("redacted", "***")]


def test_a_title_that_changes_is_told(talk):
    follower = Follower(talk)
    talk.store.update(talk.id, title="A trip")
    assert follower.follow() == [("session", "A trip")]
    assert follower.follow() == []


def test_a_session_that_is_gone_ends_it(talk):
    follower = Follower(talk)
    cursor = Cursor.decode(follower.last, talk.id)
    talk.store.delete("talk")
    assert reading.read(follower.session, cursor) is None
    assert reading.now(follower.session) is None
    assert reading.beginning(follower.session) is None


def test_what_is_said_after_a_session_changed_hands_is_not_read_for_the_one_before(talk, bob):
    follower = Follower(talk)
    Session.objects.filter(pk=talk.id).update(owner=bob)
    talk.say("for Bob only")
    assert reading.read(follower.session, Cursor.decode(follower.last, talk.id)) is None


def test_an_agent_that_is_gone_makes_the_client_read_anew(talk):
    talk.say("one", "b")
    follower = Follower(talk)
    SessionAgent.objects.filter(pk=talk.agents["b"].id).delete()
    talk.say("two")
    assert follower.follow() == [("reset", "agent removed")]
    assert follower.follow() == []
    talk.say("three")
    assert follower.follow() == [("new", "three")]


def test_an_agent_that_is_gone_and_had_said_nothing_is_no_trouble(talk):
    talk.say("one")
    follower = Follower(talk)
    SessionAgent.objects.filter(pk=talk.agents["b"].id).delete()
    assert follower.follow() == []


def test_a_page_holds_no_more_than_a_few_megabytes_of_payloads(talk):
    for number in range(7):
        talk.say(f"{number}" * 900_000)
    session = Session.objects.get(pk=talk.id)
    cursor = reading.beginning(session)
    sizes = []
    while cursor is not None:
        page = reading.read(session, cursor)
        assert page is not None
        rows = [event.row for event in page.events if isinstance(event, MessageEvent)]
        assert all(row.read for row in rows)
        sizes.append(len(rows))
        cursor = page.cursor if page.more else None
    assert sizes == [4, 3]


def test_looking_when_nothing_happened_takes_two_statements_however_many_messages(talk):
    for number in range(20):
        talk.say(str(number), "ab"[number % 2])
    session = Session.objects.get(pk=talk.id)
    cursor = reading.now(session)
    assert cursor is not None
    with CaptureQueriesContext(connection) as queries:
        page = reading.read(session, cursor)
    assert page is not None
    assert page.events == []
    assert len(queries) == 2


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.sampled_from("ab")),
        st.tuples(st.just("pop"), st.sampled_from("ab")),
        st.tuples(st.just("grow"), st.sampled_from("ab")),
        st.tuples(st.just("redact"), st.sampled_from("ab")),
        st.tuples(st.just("clear"), st.sampled_from("ab")),
        st.tuples(st.just("rewind"), st.sampled_from("ab")),
        st.tuples(st.just("switch"), st.sampled_from("ab")),
        st.tuples(st.just("read"), st.integers(0, 4)),
        st.tuples(st.just("follow"), st.integers(1, 5)),
    ),
    max_size=25,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS, st.sampled_from(["now", "start"]), st.sampled_from([1, cursors.AGENTS]))
def test_a_client_shows_in_the_end_what_is_stored_however_often_its_line_broke(
    db, steps, start, agents
):
    with mock.patch.object(cursors, "AGENTS", agents):
        follow_steps(steps, start)


def follow_steps(steps: list[tuple[str, Any]], start: str) -> None:
    store = SessionStore()
    name = f"talk {Session.objects.count()}"
    talk = Speaking(EVERYBODY, name)
    follower = Follower(talk, start)
    for number, (what, how) in enumerate(steps):
        if what == "read":
            follower.follow(count=3, drop_after=how)
        elif what == "follow":
            follower.follow(count=how)
        elif what == "say":
            talk.say(str(number), how)
        elif what == "clear":
            store.clear(talk.agents[how])
        elif what in ("rewind", "switch"):
            go_back(talk, what, how, number)
        else:
            change(talk, what, how, number)
    follower.follow(count=2)
    assert follower.screen == stored(talk)


def go_back(talk: Speaking, what: str, agent: str, number: int) -> None:
    """Rewinds a conversation to somewhere, or goes on from one of its branches."""
    branches = talk.store.branches(talk.agents[agent])
    if what == "rewind":
        talk.store.rewind(talk.agents[agent], number % (branches[0].length + 1) - 1)
    elif sides := branches[1:]:
        talk.store.switch_branch(talk.agents[agent], sides[number % len(sides)].number)


def change(talk: Speaking, what: str, agent: str, number: int) -> None:
    """Pops, grows or redacts the last message; redacts the first one now and then."""
    messages = SessionAgent.objects.get(pk=talk.agents[agent].id).messages.filter(branch=0)
    positions = list(messages.order_by("message_id").values_list("message_id", "redacted_at"))
    if not positions:
        return
    last, redacted = positions[-1]
    if what == "pop":
        talk.pop(agent)
    elif what == "redact":
        talk.redact(positions[0][0] if number % 2 else last, agent)
    elif redacted is None:
        talk.change(last, f"grown {number}", agent)


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
    assert len(follower.last) <= cursors.LONGEST == 4096
    assert follower.screen == stored(crowd)
    many_digits = Place(2**31 - 1, tuple((2**31 - 1, f"{row:08}") for row in range(4)), "87654321")
    longest = Cursor(
        session=cursors.digest(crowd.id),
        epoch=2**31 - 1,
        head="12345678",
        agents={f"{number:08}": many_digits for number in range(900)},
        redactions=tuple(UUID(int=number) for number in range(REDACTIONS)),
        under_way=Pass(UUID(int=5), UUID(int=6), 2**31 - 1),
    )
    text = longest.encode()
    assert len(text) <= cursors.LONGEST
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
    agent = crowd.store.open_agent(crowd.session, "agent 7", dialect="strands")
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
    cursor = reading.now(session)
    assert cursor is not None
    crowd.agents["a"] = crowd.store.open_agent(crowd.session, "agent 7", dialect="strands")
    crowd.say("once more")
    page = reading.read(session, cursor)
    assert page is not None
    (event,) = page.events
    assert isinstance(event, MessageEvent)
    assert event.row.message_id == 3


def test_many_agents_take_no_more_statements_than_few(crowd):
    session = Session.objects.get(pk=crowd.id)
    with CaptureQueriesContext(connection) as queries:
        cursor = reading.now(session)
    assert len(queries) == 3
    start = reading.beginning(session)
    assert start is not None
    with CaptureQueriesContext(connection) as queries:
        page = reading.read(session, start)
    assert page is not None
    assert len(page.events) == 50
    assert len(queries) < 10
    assert cursor is not None


def test_messages_behind_positions_that_were_left_out_are_told(talk):
    for number in range(4):
        talk.say(str(number))
    follower, later = Follower(talk, "start"), Follower(talk)
    SessionMessage.objects.filter(message_id=3).update(message_id=5000)
    SessionMessage.objects.filter(message_id__lt=2).delete()
    assert follower.follow(count=1) == [("new", "2"), ("new", "3")]
    later.follow()
    assert later.screen[talk.agents["a"].id, 5000][2] == "3"
