"""The deletion of a user: the sessions go with the user, or stay without an owner."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import ProtectedError
from django.urls import reverse

from django_agent_sessions import audit
from django_agent_sessions.governance import legal_hold, sharing
from django_agent_sessions.models import (
    AuditEvent,
    Participant,
    Session,
    SessionMessage,
    StoredObject,
)
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.snapshots import SnapshotStorageStore
from django_agent_sessions.testing import make_session
from tests.processes import ROOT

pytestmark = pytest.mark.django_db(transaction=True)

KEEP = {"KEEP_SESSIONS_OF_DELETED_USERS": True}


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada")


@pytest.fixture
def root() -> User:
    return User.objects.create_superuser("root")


def events() -> list[tuple[str, str, Any]]:
    rows = AuditEvent.objects.order_by("pk")
    return [(row.action, row.actor, row.session) for row in rows]


def test_by_default_the_sessions_go_and_the_actor_is_recorded(ada, root):
    row = make_session("Hello", owner=ada)

    with audit.acting(root):
        ada.delete()

    assert Session.objects.count() == 0
    assert events() == [("deleted", "root", row.pk)]


def test_with_the_setting_everything_stays_without_an_owner(ada, root, settings):
    settings.AGENT_SESSIONS = KEEP
    row = make_session("Hello", "Hi", owner=ada, session_id="s")
    objects = SnapshotStorageStore(SessionStore(owner=ada))
    objects.write_object("of the session", b"kept", session=objects.store.get("s"))
    objects.write_object("of the user", b"gone")
    sharing.add_participant(row, root, "reader")
    before = dict(Session.objects.values().get())

    with audit.acting(root):
        ada.delete()

    after = dict(Session.objects.values().get())
    changed = {name for name, value in after.items() if value != before.get(name)}
    assert changed == {"owner_id", "change", "header_change", "updated_at"}
    assert after["owner_id"] is None
    store = SessionStore()
    [agent] = store.agents.list("s")
    assert [row.text for row in SessionMessage.objects.order_by("message_id")] == ["Hello", "Hi"]
    ownerless = SnapshotStorageStore(store)
    assert ownerless.read_object("of the session", session=store.get("s")) == b"kept"
    assert StoredObject.objects.count() == 1
    assert Participant.objects.count() == 1
    event = AuditEvent.objects.get(action="owner_removed")
    assert (event.actor, event.session) == ("root", row.pk)
    assert event.details == {"owner": str(before["owner_id"])}
    # The conversation goes on.
    store.append(agent, {"role": "user", "content": "More"})
    assert len(store.payloads(agent)) == 3


def test_many_sessions_and_users_at_once(ada, settings):
    settings.AGENT_SESSIONS = KEEP
    bob = User.objects.create_user("bob")
    for number in range(60):
        make_session("Hello", owner=ada if number % 2 else bob, session_id=f"s{number}")
    make_session("Hello", session_id="nobody's")

    User.objects.filter(username__in=["ada", "bob"]).delete()

    assert User.objects.count() == 0
    assert Session.objects.filter(owner=None).count() == 61
    assert AuditEvent.objects.filter(action="owner_removed").count() == 60


def test_a_rollback_undoes_it(ada, settings):
    settings.AGENT_SESSIONS = KEEP
    make_session("Hello", owner=ada)

    with transaction.atomic():
        ada.delete()
        assert Session.objects.get().owner is None
        transaction.set_rollback(True)

    assert Session.objects.get().owner == User.objects.get()
    assert AuditEvent.objects.count() == 0


@pytest.mark.parametrize("setting", [{}, KEEP])
def test_a_hold_forbids_it_in_both_cases(ada, settings, setting):
    settings.AGENT_SESSIONS = setting
    row = make_session("Hello", owner=ada)
    legal_hold.hold(row, reason="case 1")

    with pytest.raises(ProtectedError):
        ada.delete()

    assert Session.objects.get().owner == User.objects.get()


def test_the_admin_deletes_a_user_and_keeps_the_sessions(ada, root, settings, client):
    settings.AGENT_SESSIONS = KEEP
    make_session("Hello", owner=ada, session_id="kept session")
    client.force_login(root)
    url = reverse("admin:auth_user_delete", args=[ada.pk])

    assert b"kept session" not in client.get(url).content
    client.post(url, {"post": "yes"})

    assert not User.objects.filter(username="ada").exists()
    assert Session.objects.get().owner is None


def test_another_users_sessions_stay_as_they_are(ada, root, settings):
    settings.AGENT_SESSIONS = KEEP
    make_session("Hello", owner=root)

    ada.delete()

    assert Session.objects.get().owner == root
    assert AuditEvent.objects.count() == 0


@pytest.mark.process
@pytest.mark.parametrize("router", ["django_agent_sessions.db.routers.SessionsRouter", ""])
def test_with_two_databases_they_stay_too(router):
    inherited = {key: value for key, value in os.environ.items() if key != "TEST_DATABASE_NAME"}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.topologies.deleted_users", router],
        cwd=ROOT,
        env={**inherited, "DJANGO_SETTINGS_MODULE": "tests.settings"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {
        "kept": [["s", None]],
        "events": [["owner_removed", "root"]],
        "deleted": [],
        "events of deletion": [["deleted", "root"]],
    }
