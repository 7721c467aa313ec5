"""Sessions go in parts: none is half there, whatever comes in between, and no lock is held long."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS, connection, transaction
from django.db.models.signals import pre_delete
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_agent_sessions import audit
from django_agent_sessions.exceptions import LegalHoldError, SessionNotFoundError
from django_agent_sessions.governance import legal_hold
from django_agent_sessions.models import AuditEvent, Session, SessionAgent, SessionMessage, deletion
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.owners import EVERYBODY
from tests.admin.people import staff
from tests.rest.conftest import client_of
from tests.store.cutting import cut

pytestmark = pytest.mark.django_db(transaction=True)

LIST = "admin:agent_sessions_session_changelist"


class PulledPlugError(Exception):
    """What comes in between."""


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Two sessions or three messages are as much as one transaction deletes."""
    monkeypatch.setattr(deletion, "MAX_SESSIONS", 2)
    monkeypatch.setattr(deletion, "MAX_MESSAGES", 3)


def said(store, name, count):
    session = store.open(name)
    agent = store.agents.open(session)
    store.append_many(agent, [{"role": "user", "content": f"{name} {n}"} for n in range(count)])
    return session, agent


def lengths() -> dict[str, int]:
    """How many messages each session has that can be found by its name."""
    store = SessionStore(owner=EVERYBODY)
    return {
        session.session_id: len(store.payloads(agent))
        for session in store.sessions.list()
        for agent in store.agents.list(session)
    }


def deleted() -> list:
    return list(AuditEvent.objects.filter(action="deleted").values_list("session", flat=True))


def nothing_left() -> bool:
    return not any(m._base_manager.exists() for m in (Session, SessionAgent, SessionMessage))


@pytest.fixture
def interrupted():
    """Pulls the plug at the n-th time that a signal says of a session that it goes."""
    connected = []

    def pull(signal, at, do=None):
        times = []

        def receive(instance, **kwargs):
            times.append(instance.pk)
            if len(times) == at:
                if do is None:
                    raise PulledPlugError
                do(instance)

        signal.connect(receive, Session, weak=False)
        connected.append((signal, receive))

    yield pull
    for signal, receive in connected:
        signal.disconnect(receive, Session)


def test_many_sessions_go_in_parts_each_of_them_whole(store, interrupted):
    for number in range(7):
        said(store, f"s{number}", 1)
    interrupted(pre_delete, at=4)

    with pytest.raises(PulledPlugError):
        Session.objects.all().delete()

    assert sorted(lengths()) == ["s2", "s3", "s4", "s5", "s6"]
    assert len(deleted()) == 2
    assert Session.objects.all().delete()[1]["agent_sessions.SessionMessage"] == 5
    assert nothing_left()
    assert len(deleted()) == 7


def test_only_what_was_asked_for_goes(store):
    kept, *_ = (said(store, f"s{number}", number)[0] for number in range(6))

    Session.objects.exclude(pk=kept.id).delete()

    assert lengths() == {"s0": 0}
    assert SessionMessage.objects.count() == 0


def test_no_message_is_read_and_none_at_all_in_one_statement(store):
    said(store, "s", 8)

    with CaptureQueriesContext(connection) as captured:
        assert store.delete("s") is True

    assert nothing_left()
    payload = f".{connection.ops.quote_name('message')}"
    assert not [query for query in captured if payload in query["sql"]]
    assert sum("DELETE" in q["sql"] and "sessionmessage" in q["sql"] for q in captured) >= 3


WAYS = {
    "store": lambda: SessionStore(owner=EVERYBODY).delete("s"),
    "row": lambda: Session.objects.get(session_id="s").delete(),
    "queryset": lambda: Session.objects.filter(session_id="s").delete(),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_large_session_is_gone_for_all_as_soon_as_its_deletion_is_interrupted(
    store, ada, interrupted, way
):
    session, _ = said(store, "s", 10)
    Session.objects.filter(pk=session.id).update(owner=ada, external_id="x", title="Secret")
    # It is set aside with the first part, and said before each.
    interrupted(deletion.session_tombstoned, at=3)

    with pytest.raises(PulledPlugError), audit.acting("cleaner"):
        WAYS[way]()

    assert 0 < SessionMessage.objects.count() < 10
    assert store.find("s") is None
    assert SessionStore(owner=ada).sessions.list() == []
    assert deleted() == [session.id]
    # Its name is free.
    assert said(store, "s", 1)
    assert lengths()["s"] == 1
    # And those who may see everything do not take the rest of it for a session.
    auditor = staff("auditor", "view_session", "read_transcript", "view_sessionagent")
    url = f"/api/sessions/{session.id}/messages/?scope=all"
    assert client_of(auditor).get(url).status_code == 404
    assert client_of(ada).get(f"/api/sessions/{session.id}/").status_code == 404
    with pytest.raises(SessionNotFoundError):
        store.get(str(session.id))


def test_what_an_interruption_left_is_deleted_by_the_command(store, interrupted, admin_client):
    session, _ = said(store, "s", 10)
    Session.objects.update(title="Secret")
    interrupted(deletion.session_tombstoned, at=3)
    with pytest.raises(PulledPlugError):
        store.delete("s")
    change = reverse("admin:agent_sessions_session_change", args=[session.id])
    assert admin_client.get(change).status_code == 404
    assert "Secret" not in admin_client.get(reverse(LIST)).content.decode()

    told = StringIO()
    call_command("agent_sessions_gc", dry_run=True, stdout=told)
    call_command("agent_sessions_gc", stdout=told)

    assert "1 interrupted deletions of sessions would be completed" in told.getvalue()
    assert "1 interrupted deletions of sessions completed" in told.getvalue()
    assert nothing_left()
    assert deleted() == [session.id]


def test_a_callers_transaction_stays_one(store, interrupted):
    said(store, "s", 10)
    said(store, "t", 1)

    with transaction.atomic():
        store.delete("s")
        Session.objects.all().delete()
        assert nothing_left()
        transaction.set_rollback(True)

    assert lengths() == {"s": 10, "t": 1}
    assert deleted() == []


def test_a_hold_that_comes_in_between_stops_it(store, interrupted):
    session, _ = said(store, "s", 10)
    interrupted(
        deletion.session_tombstoned,
        at=3,
        do=lambda row: transaction.on_commit(
            lambda: Session.objects.filter(pk=row.pk).update(legal_hold=True)
        ),
    )

    with pytest.raises(LegalHoldError):
        store.delete("s")

    left = SessionMessage.objects.count()
    assert left > 0
    assert deletion.delete_tombstones(Session.objects.using(DEFAULT_DB_ALIAS)) == 0
    assert SessionMessage.objects.count() == left
    legal_hold.release(session.id, reason="closed")
    assert deletion.delete_tombstones(Session.objects.using(DEFAULT_DB_ALIAS)) == 1
    assert nothing_left()


def test_a_large_session_under_hold_is_not_set_aside(store):
    session, _ = said(store, "s", 10)
    legal_hold.hold(session.id, reason="case 1")

    for delete in WAYS.values():
        with pytest.raises(LegalHoldError):
            delete()

    assert lengths() == {"s": 10}


@pytest.mark.parametrize("done", [True, False])
def test_a_connection_that_breaks_in_between_does_not_end_it(store, done):
    session, _ = said(store, "s", 10)

    with cut("DELETE", done=done):
        assert store.delete("s") is True

    assert nothing_left()
    assert deleted() == [session.id]


def test_the_admins_page_deletes_a_large_session_after_its_own_transaction(store, client):
    session, _ = said(store, "s", 10)
    client.force_login(staff("officer", "view_session", "delete_session"))

    with CaptureQueriesContext(connection) as captured:
        url = reverse("admin:agent_sessions_session_delete", args=[session.id])
        assert client.post(url, {"post": "yes"}).status_code == 302

    assert nothing_left()
    assert AuditEvent.objects.get(action="deleted").actor == "officer"
    assert sum("DELETE" in q["sql"] and "sessionmessage" in q["sql"] for q in captured) >= 3
