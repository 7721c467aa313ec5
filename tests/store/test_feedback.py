"""Feedback: one for each message, user and source; gone with its message and session."""

from __future__ import annotations

import asyncio

import pytest
from django.contrib.auth import get_user_model

from django_agent_sessions import EVERYBODY, SessionStore
from django_agent_sessions.exceptions import (
    InvalidIdError,
    LegalHoldError,
    PayloadError,
    SessionNotFoundError,
)
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import MessageFeedback, Session, SessionMessage
from django_agent_sessions.values.ids import new_id

pytestmark = pytest.mark.django_db


@pytest.fixture
def user():
    return get_user_model().objects.create(username="ada")


@pytest.fixture
def store(user):
    return SessionStore(owner=user)


@pytest.fixture
def agent(store):
    agent = store.agents.open(store.open("s-1"))
    store.append_many(agent, [{"role": "user", "content": f"text {n}"} for n in range(4)])
    return agent


def rows_of(agent):
    return list(SessionMessage.objects.filter(agent=agent.id).order_by("branch", "message_id"))


def test_the_second_feedback_of_a_user_and_source_replaces_the_first(store, agent, user):
    message = rows_of(agent)[1].pk
    first = store.feedback.save(message, 1)
    second = store.feedback.save(message, -1, comment="Wrong city.")
    judged = store.feedback.save(message, 1, source="judge:v2", user="")

    assert (second.id, second.created_at) == (first.id, first.created_at)
    assert [(one.user, one.source, one.value, one.comment) for one in store.feedback.list()] == [
        (str(user.pk), "user", -1, "Wrong city."),
        ("", "judge:v2", 1, ""),
    ]
    assert store.feedback.list(user=user) == [second]
    assert store.feedback.list(message=message, user="") == [judged]
    assert store.feedback.list(new_id()) == []


def test_feedback_is_withdrawn_once(store, agent):
    message = rows_of(agent)[0].pk
    store.feedback.save(message, 1)
    assert store.feedback.delete(message)
    assert not store.feedback.delete(message)
    assert store.feedback.list() == []


def test_other_users_reach_neither_messages_nor_feedback(store, agent):
    message = rows_of(agent)[0].pk
    store.feedback.save(message, 1)
    stranger = SessionStore(owner=get_user_model().objects.create(username="bob"))
    for call in (
        lambda: stranger.feedback.save(message, 1),
        lambda: stranger.feedback.delete(message),
    ):
        with pytest.raises(SessionNotFoundError, match=str(message)):
            call()
    assert stranger.feedback.list(message=message) == []
    assert len(SessionStore(owner=EVERYBODY).feedback.list(message=message)) == 1


@pytest.mark.parametrize("value", [2, True, "1", 0.5, None])
def test_a_value_is_one_of_three(store, agent, value):
    with pytest.raises(PayloadError):
        store.feedback.save(rows_of(agent)[0].pk, value)


def test_comments_and_sources_are_bounded(store, agent):
    message = rows_of(agent)[0].pk
    store.feedback.save(message, 0, comment="é" * 4000)
    with pytest.raises(PayloadError):
        store.feedback.save(message, 0, comment="x" * 4001)
    for source in ("", "a b", "x" * 33, None):
        with pytest.raises(InvalidIdError):
            store.feedback.save(message, 0, source=source)
    assert store.feedback.save(message, 0, comment="a\x00b\ud800c").comment == "a\ufffdb\ufffdc"


def test_comments_are_masked_on_write(store, agent, settings):
    settings.AGENT_SESSIONS = {"REDACT_ON_WRITE": ["card"]}
    saved = store.feedback.save(rows_of(agent)[0].pk, -1, comment="It said 4111 1111 1111 1111.")
    assert "4111" not in saved.comment
    assert store.feedback.list() == [saved]


def test_feedback_goes_with_its_message_and_stays_with_others(store, agent):
    keys = [row.pk for row in rows_of(agent)]
    for key in keys:
        store.feedback.save(key, 1)
    store.pop(agent)
    assert [one.message for one in store.feedback.list()] == keys[:3]
    rows_of(agent)[2].delete()
    assert [one.message for one in store.feedback.list()] == keys[:2]
    SessionMessage.objects.filter(pk=keys[1]).delete()
    assert [one.message for one in store.feedback.list()] == keys[:1]
    store.clear(agent)
    assert not MessageFeedback.objects.exists()


def test_feedback_follows_its_message_to_another_branch(store, agent):
    kept, moved = (rows_of(agent)[n].pk for n in (0, 3))
    store.feedback.save(kept, 1)
    store.feedback.save(moved, -1)
    store.branches.rewind(agent, 2)
    branches = {row.pk: row.branch for row in rows_of(agent)}
    assert (branches[kept], branches[moved] > 0) == (0, True)
    assert [(one.message, one.value) for one in store.feedback.list()] == [(kept, 1), (moved, -1)]


@pytest.mark.parametrize("large", [False, True])
def test_feedback_goes_with_its_session(store, agent, monkeypatch, large):
    if large:
        monkeypatch.setattr("django_agent_sessions.models.deletion.MAX_MESSAGES", 1)
    store.feedback.save(rows_of(agent)[0].pk, -1, comment="Wrong.")
    assert store.delete("s-1")
    assert not MessageFeedback.objects.exists()


def test_a_redaction_finds_comments(store, agent):
    message = rows_of(agent)[0].pk
    store.feedback.save(message, -1, comment="My number 0170 is in it.")
    found = redact(agent.session, Find("0170"), reason="asked", dry_run=True)
    assert [hit.place.kind for hit in found.hits] == ["feedback"]
    redact(agent.session, Find("0170"), reason="asked")
    assert "0170" not in store.feedback.list()[0].comment
    assert store.feedback.list()[0].value == -1


def test_a_legal_hold_allows_new_feedback_and_no_change(store, agent):
    first, second = (row.pk for row in rows_of(agent)[:2])
    given = store.feedback.save(first, -1, comment="Evidence.")
    Session.objects.update(legal_hold=True)
    store.feedback.save(second, 1)
    assert store.feedback.save(first, -1, comment="Evidence.") == given
    with pytest.raises(LegalHoldError):
        store.feedback.save(first, 1)
    with pytest.raises(LegalHoldError):
        store.feedback.delete(first)
    assert store.feedback.list(message=first) == [given]


@pytest.mark.django_db(transaction=True)
def test_async_twins_do_the_same(store, agent):
    message = rows_of(agent)[0].pk

    async def rate():
        saved = await store.feedback.asave(message, 1)
        assert await store.feedback.alist(message=message) == [saved]
        return await store.feedback.adelete(message)

    assert asyncio.run(rate())
    assert store.feedback.list() == []
