"""Signals arrive once, after the commit, and not at all after a rollback."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from django_agent_sessions import signals
from django_agent_sessions.exceptions import LegalHoldError
from django_agent_sessions.governance.legal_hold import hold
from django_agent_sessions.leases import acquire
from django_agent_sessions.models import RunLease, Session, deletion
from django_agent_sessions.values.ids import new_id
from tests.grouping import together

pytestmark = pytest.mark.django_db(transaction=True)

NAMES = ("session_created", "messages_added", "session_redacted", "session_deleted", "lease_lost")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.fixture
def sent():
    """What was sent: the name of the signal, and its arguments but `using`."""
    seen: list[tuple[str, dict[str, Any]]] = []
    receivers = []
    for name in NAMES:

        def receive(sender, signal, using, name=name, **arguments):
            assert sender is Session
            seen.append((name, arguments))

        receivers.append((getattr(signals, name), receive))
    for signal, receive in receivers:
        signal.connect(receive, weak=False)
    yield seen
    for signal, receive in receivers:
        signal.disconnect(receive)


def names(sent) -> list[str]:
    return [name for name, _ in sent]


def test_each_change_is_sent_with_its_ids_and_counts(store, sent):
    session = store.open("s", title="a title")
    agent = store.agents.open(session)
    store.append_many(agent, [user("a"), user("b")])
    store.messages.redact(agent, 0, user("[gone]"))
    fork = store.sessions.fork(session)
    store.delete("s")

    ids = {"namespace": session.namespace, "scope": session.scope, "session_id": "s"}
    assert sent == [
        ("session_created", {"session": session.id, "kind": "create", **ids}),
        (
            "messages_added",
            {"session": session.id, "agent": agent.id, "count": 2, "kind": "append"},
        ),
        ("session_redacted", {"session": session.id}),
        (
            "session_created",
            {"session": fork.id, "kind": "fork", **ids, "session_id": fork.session_id},
        ),
        ("session_deleted", {"session": session.id, "count": 2, **ids}),
    ]


def test_a_first_message_creates_the_session_and_adds_it(store, sent):
    session, _agent, _ = store.sessions.start("s", "a", [user("a")], dialect="openai")

    assert names(sent) == ["session_created", "messages_added"]
    assert [arguments["session"] for _, arguments in sent] == [session.id] * 2
    assert sent[1][1]["count"] == 1


def test_nothing_is_sent_before_the_commit(store, sent):
    with transaction.atomic():
        agent = store.agents.open(store.open("s"))
        store.append(agent, user("a"))
        store.messages.redact(agent, 0, user("[gone]"))
        store.delete("s")
        assert sent == []
    assert names(sent) == [
        "session_created",
        "messages_added",
        "session_redacted",
        "session_deleted",
    ]


def test_nothing_is_sent_after_a_rollback(store, agent, sent):
    with transaction.atomic():
        store.open("other")
        store.append(agent, user("a"))
        store.messages.redact(agent, 0, user("[gone]"))
        store.delete("other")
        transaction.set_rollback(True)
    assert sent == []


def test_a_rolled_back_savepoint_takes_only_its_own_signals(store, agent, sent):
    with transaction.atomic():
        store.append(agent, user("a"))
        with transaction.atomic():
            store.append(agent, user("b"))
            transaction.set_rollback(True)
    assert names(sent) == ["messages_added"]


async def test_each_append_of_a_group_is_sent_once(store, sent, settings):
    settings.AGENT_SESSIONS = {"MAX_CONNECTIONS": 1}
    agents = [await store.agents.aopen(await store.aopen(f"s{number}")) for number in range(3)]
    sent.clear()

    await together(*(store.aappend_many(agent, [user("a"), user("b")]) for agent in agents))

    assert sorted(arguments["agent"] for _, arguments in sent) == sorted(a.id for a in agents)
    assert [arguments["count"] for _, arguments in sent] == [2, 2, 2]


def test_a_batch_deletion_sends_each_session_once(store, sent, monkeypatch):
    monkeypatch.setattr(deletion, "MAX_MESSAGES", 3)
    sizes = {"small": 1, "medium": 2, "large": 8}
    for name, size in sizes.items():
        store.append_many(store.agents.open(store.open(name)), [user("a")] * size)
    sent.clear()

    Session.objects.all().delete()

    assert names(sent) == ["session_deleted"] * 3
    assert {arguments["session_id"]: arguments["count"] for _, arguments in sent} == sizes


def test_a_deletion_that_a_hold_refuses_is_not_sent(store, agent, sent):
    hold(agent.session, reason="case")

    with pytest.raises(LegalHoldError):
        Session.objects.all().delete()

    assert sent == []


def test_a_lease_that_another_run_took_is_lost_once(store, sent):
    session = store.open("s")
    sent.clear()
    with acquire(session.id, keep=False) as lease:
        RunLease.objects.filter(pk=session.id).update(token=new_id())
        assert not lease._hold.renew()
        assert not lease._hold.renew()
    assert sent == [("lease_lost", {"session": session.id})]


def test_an_error_of_a_receiver_is_logged_and_changes_nothing(store, agent, caplog):
    def fail(**arguments):
        raise RuntimeError("broken receiver")

    signals.messages_added.connect(fail)
    try:
        store.append(agent, user("a"))
    finally:
        signals.messages_added.disconnect(fail)

    assert store.payloads(agent) == [user("a")]
    assert "broken receiver" in caplog.text


def test_without_receivers_nothing_waits_for_the_commit(store, agent, monkeypatch):
    monkeypatch.setattr(signals.messages_added, "receivers", [])
    with transaction.atomic():
        store.append(agent, user("a"))
        assert transaction.get_connection().run_on_commit == []
