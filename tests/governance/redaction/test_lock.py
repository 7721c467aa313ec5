"""A redaction searches without a lock, so that it holds up no other writer, on SQLite either."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.db import connection, connections

from django_agent_sessions.governance.redaction import (
    Find,
    WholeMessage,
    redact,
    session_search,
)
from django_agent_sessions.models import MessageFeedback, SessionMessage
from django_agent_sessions.store import SessionStore

pytestmark = pytest.mark.django_db(transaction=True)


def said(text="my secret"):
    return {"role": "user", "content": text}


@pytest.fixture
def searched(monkeypatch) -> list[bool]:
    """Notes for each row that is searched whether a transaction is open."""
    noted: list[bool] = []
    original = session_search.SessionSearch._search_row

    def search_row(self, copy, groups):
        noted.append(connection.in_atomic_block)
        return original(self, copy, groups)

    monkeypatch.setattr(session_search.SessionSearch, "_search_row", search_row)
    return noted


def after_search(monkeypatch, write: Callable[[], None], times: int = 1) -> None:
    """Lets another connection write once each of the first searches has ended."""
    original = session_search.SessionSearch.search
    left = [True] * times

    def elsewhere() -> None:
        try:
            write()
        finally:
            connections.close_all()

    def search(self):
        original(self)
        if left:
            left.pop()
            thread = threading.Thread(target=elsewhere)
            thread.start()
            # On SQLite it would wait for a lock, and fail.
            thread.join(10)
            assert not thread.is_alive()

    monkeypatch.setattr(session_search.SessionSearch, "search", search)


@pytest.mark.parametrize("what", ["messages", "snapshots", "forks"])
def test_what_is_written_meanwhile_is_searched_without_the_lock(store, monkeypatch, searched, what):
    session = store.open("s")
    agent = store.agents.open(session)
    store.append_many(agent, [said()] * 100)
    if what == "snapshots":
        store.snapshots.take(agent)

    def write() -> None:
        other = SessionStore()
        open_agent = other.agents.find(other.get("s"), "default")
        assert open_agent is not None
        other.append_many(open_agent, [said()] * 60)

    after_search(monkeypatch, write)

    done = redact(session.id, Find("secret"), reason="r", descendants=what == "forks")

    assert done.messages == 160
    assert not any(searched)


def test_a_session_that_is_written_during_two_searches_is_searched_with_the_lock(
    store, monkeypatch, searched
):
    session = store.open("s")
    store.append(store.agents.open(session), said())

    def write() -> None:
        other = SessionStore()
        open_agent = other.agents.find(other.get("s"), "default")
        assert open_agent is not None
        other.append(open_agent, said())

    after_search(monkeypatch, write, times=2)

    done = redact(session.id, Find("secret"), reason="r")

    assert done.messages == 3
    without, with_lock = searched[: searched.index(True)], searched[searched.index(True) :]
    assert without
    assert all(with_lock)


@pytest.mark.parametrize("rated_before", [False, True])
def test_a_comment_that_is_written_meanwhile_is_redacted_with_its_message(
    store, monkeypatch, rated_before
):
    session = store.open("s")
    store.append_many(store.agents.open(session), [said()] * 2)
    first, second = SessionMessage.objects.order_by("message_id")
    if rated_before:
        store.feedback.save(first.pk, 1, comment="my secret")

    def write() -> None:
        for message in (first, second):
            SessionStore().feedback.save(message.pk, -1, comment="my secret", source="late")

    after_search(monkeypatch, write)

    redact(session.id, WholeMessage(first.pk), reason="r")

    left = MessageFeedback.objects.filter(message=first.pk)
    assert {row.comment for row in left} == {"[REDACTED]"}
    assert left.count() == 1 + rated_before
    assert MessageFeedback.objects.get(message=second.pk).comment == "my secret"
