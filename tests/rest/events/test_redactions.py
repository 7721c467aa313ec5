"""What a stream tells of redactions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from django_agent_sessions.governance import redaction
from django_agent_sessions.models import SessionMessage

from .following import Follower, stored

pytestmark = pytest.mark.django_db


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


def test_a_redaction_of_many_messages_is_told_in_pages_once(ada, talk):
    for number in range(30):
        talk.say(f"secret {number}", "ab"[number % 2])
    follower = Follower(talk)
    redaction.redact(talk.id, redaction.Find("secret"), reason="asked", actor=ada)
    told = follower.follow(count=7)
    assert len(told) == 30
    assert {change for change, _ in told} == {"redacted"}
    assert not any("secret" in text for _, text in told)
    assert follower.follow() == []


def test_however_many_redactions_come_at_once_each_is_told_once(talk):
    for number in range(40):
        talk.say(str(number))
    follower = Follower(talk)
    for position in range(30):
        talk.redact(position)
    assert len(follower.follow(count=6)) == 30
    for position in range(30, 35):
        talk.redact(position)
        assert follower.follow() == [("redacted", "***")]
    assert follower.screen.items() <= stored(talk).items()


def behind(redaction_of: Any, seconds: int) -> UUID:
    """A key that another writer would make now, whose clock is behind."""
    key = redaction_of.int
    return UUID(int=((key >> 80) - seconds * 1000 << 80) | key % (1 << 80))


def test_a_redaction_by_a_writer_whose_clock_is_behind_is_told(talk):
    for number in range(4):
        talk.say(str(number))
    follower = Follower(talk)
    for position in range(2):
        talk.redact(position)
    follower.follow()
    talk.redact(2)
    late = SessionMessage.objects.get(message_id=2)
    SessionMessage.objects.filter(pk=late.pk).update(redaction=behind(late.redaction, 900))
    assert follower.follow() == [("redacted", "***")]
    assert (talk.agents["a"].id, 2) in follower.screen
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
