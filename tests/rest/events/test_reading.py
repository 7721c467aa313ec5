"""What comes after a cursor, whatever was written in between."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_agent_sessions.events import cursor as cursors
from django_agent_sessions.events import reading
from django_agent_sessions.events.cursor import Cursor
from django_agent_sessions.events.event_types import MessageEvent
from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.owners import NOBODY

from .conftest import Speaking, payload
from .following import Follower, stored

pytestmark = pytest.mark.django_db


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
    from django_agent_sessions.values.records import NewMessage

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
    talk.store.branches.rewind(talk.agents["a"], 1)
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
    side = talk.store.branches.rewind(agent, 1)
    talk.store.branches.switch(agent, side.number)
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
    made = talk.store.branches.create(agent, upto=2)
    talk.store.append(agent.on_branch(made.number), payload("aside"))
    talk.store.messages.redact(agent.on_branch(made.number), 2, payload("***"))
    assert follower.follow() == []
    assert follower.screen == {}


def test_another_branch_that_becomes_the_main_one_is_told_whole(talk):
    for text in "abc":
        talk.say(text)
    follower = Follower(talk, "start")
    follower.follow()
    agent = talk.agents["a"]
    made = talk.store.branches.create(agent, upto=2)
    talk.store.append(agent.on_branch(made.number), payload("x"))
    left = talk.store.branches.switch(agent, made.number)
    assert [text for _, text in follower.follow()] == ["0", "a", "b", "x"]
    talk.store.branches.switch(agent, left.number)
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


def test_a_title_that_changes_is_told(talk):
    follower = Follower(talk)
    talk.store.sessions.update(talk.id, title="A trip")
    assert follower.follow() == [("session", "A trip")]
    assert follower.follow() == []


def test_a_session_that_is_gone_ends_it(talk):
    follower = Follower(talk)
    cursor = Cursor.decode(follower.last, talk.id)
    talk.store.delete("talk")
    assert reading.read_events(follower.session, cursor) is None
    assert reading.current_cursor(follower.session) is None
    assert reading.first_cursor(follower.session) is None


def test_what_is_said_after_a_session_changed_hands_is_not_read_for_the_one_before(talk, bob):
    follower = Follower(talk)
    Session.objects.filter(pk=talk.id).update(owner=bob)
    talk.say("for Bob only")
    assert reading.read_events(follower.session, Cursor.decode(follower.last, talk.id)) is None


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
    cursor = reading.first_cursor(session)
    sizes = []
    while cursor is not None:
        page = reading.read_events(session, cursor)
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
    cursor = reading.current_cursor(session)
    assert cursor is not None
    with CaptureQueriesContext(connection) as queries:
        page = reading.read_events(session, cursor)
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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS, st.sampled_from(["now", "start"]), st.sampled_from([1, cursors.MAX_NAMED_AGENTS]))
def test_a_client_shows_in_the_end_what_is_stored_however_often_its_line_broke(
    db, steps, start, agents
):
    with mock.patch.object(cursors, "MAX_NAMED_AGENTS", agents):
        follow_steps(steps, start)


def follow_steps(steps: list[tuple[str, Any]], start: str) -> None:
    store = SessionStore()
    name = f"talk {Session.objects.count()}"
    talk = Speaking(NOBODY, name)
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
    branches = talk.store.branches.list(talk.agents[agent])
    if what == "rewind":
        talk.store.branches.rewind(talk.agents[agent], number % (branches[0].length + 1) - 1)
    elif sides := branches[1:]:
        talk.store.branches.switch(talk.agents[agent], sides[number % len(sides)].number)


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


def test_messages_behind_positions_that_were_left_out_are_told(talk):
    for number in range(4):
        talk.say(str(number))
    follower, later = Follower(talk, "start"), Follower(talk)
    SessionMessage.objects.filter(message_id=3).update(message_id=5000)
    SessionMessage.objects.filter(message_id__lt=2).delete()
    assert follower.follow(count=1) == [("new", "2"), ("new", "3")]
    later.follow()
    assert later.screen[talk.agents["a"].id, 5000][2] == "3"


def test_a_deleted_row_is_told_and_so_is_what_takes_its_position(talk):
    for text in ("one", "two"):
        talk.say(text)
    follower = Follower(talk)
    SessionMessage.objects.get(message_id=1).delete()
    talk.say("three")

    assert [event for event in follower.follow() if event[0] == "new"] == [("new", "three")]


DELETIONS = {
    "row": lambda rows: [row.delete() for row in rows],
    "queryset": lambda rows: rows.delete(),
}


@pytest.mark.parametrize("way", DELETIONS)
def test_messages_deleted_from_the_middle_are_told_and_no_other_session_is(talk, store, way):
    for number in range(6):
        talk.say(f"a{number}", "a")
        talk.say(f"b{number}", "b")
    other = store.agents.open(store.open("other"))
    store.append_many(other, [payload("x"), payload("y")])
    follower, watching = Follower(talk, "start"), Follower(talk)
    follower.follow()

    DELETIONS[way](SessionMessage.objects.filter(session=talk.id, message_id__in=[1, 3]))

    assert sorted(follower.follow(count=3)) == sorted(
        [("removed", "1")] * 2 + [("new", f"{agent}{at}") for agent in "ab" for at in (2, 4, 5)]
    )
    assert follower.screen == stored(talk)
    assert ("removed", "1") in watching.follow()
    changes = SessionMessage.objects.filter(agent=other.id).values_list("change", flat=True)
    assert set(changes) == {0}


def test_a_cursor_of_a_session_that_was_restored_is_reset(talk):
    talk.say("one")
    Session.objects.update(change=7)
    follower = Follower(talk)
    Session.objects.update(change=0)

    assert follower.follow() == [("reset", "change number")]
