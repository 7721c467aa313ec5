"""What a stream tells of feedback: that it changed, and nothing of it."""

from __future__ import annotations

import pytest

from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import SessionMessage

from .following import Follower

pytestmark = pytest.mark.django_db

TOLD = [("feedback", "")]


@pytest.fixture
def message(talk):
    talk.say("one")
    return SessionMessage.objects.get().pk


def test_feedback_that_is_given_changed_and_withdrawn_is_told_each_time(talk, message):
    follower = Follower(talk)
    for change in (
        lambda: talk.store.feedback.save(message, 1),
        lambda: talk.store.feedback.save(message, -1, comment="Wrong city."),
        lambda: talk.store.feedback.save(message, 0, source="judge", user=""),
        lambda: talk.store.feedback.delete(message),
    ):
        change()
        assert follower.follow() == TOLD
        assert follower.follow() == []


def test_feedback_that_stays_as_it_was_is_not_told(talk, message):
    talk.store.feedback.save(message, 1)
    follower = Follower(talk)
    talk.store.feedback.save(message, 1)
    talk.store.feedback.delete(message, source="judge")
    talk.say("two")
    assert follower.follow() == [("new", "two")]


def test_a_redacted_comment_is_told_also_if_no_message_is_redacted(talk, message):
    talk.store.feedback.save(message, -1, comment="My number 0170 is in it.")
    follower = Follower(talk)
    redact(talk.id, Find("0170"), reason="asked")
    assert follower.follow() == TOLD
    talk.store.feedback.save(message, 1, comment="two")
    follower.follow()
    redact(talk.id, Find("one"), reason="asked")
    assert [change for change, _ in follower.follow()] == ["redacted"]


@pytest.mark.parametrize("heard", [0, 1, 2])
def test_a_new_title_after_feedback_is_told_also_if_the_line_breaks_in_between(
    talk, message, heard
):
    follower = Follower(talk)
    talk.store.feedback.save(message, 1)
    talk.store.sessions.update(talk.id, title="new")
    told = follower.follow(drop_after=heard) + follower.follow()
    assert told[-1] == ("session", "new")
    assert TOLD[0] in told
    assert follower.follow() == []
