"""The admin reads and writes sessions and audit events in one database: that of the store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections
from django.test import override_settings
from django.urls import reverse

from django_agent_sessions import audit
from django_agent_sessions.models import AuditEvent, Session, SessionMessage
from django_agent_sessions.store import SessionStore

from .redaction.pages import fields
from .transcripts import said

pytestmark = pytest.mark.django_db(databases=["default", "second"])

SESSIONS = "/admin/agent_sessions/session/"
EVENTS = "/admin/agent_sessions/auditevent/"


class ReadsElsewhere:
    """A router to a replica that nothing was ever replicated to."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "second" if model._meta.app_label == "agent_sessions" else None

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return "default" if model._meta.app_label == "agent_sessions" else None

    def allow_relation(self, *args: Any, **hints: Any) -> bool:
        return True


@pytest.fixture(scope="module", autouse=True)
def second(tmp_path_factory, django_db_setup, django_db_blocker) -> Iterator[str]:
    """Another database, whatever the tests' own is; there before Django prepares a test."""
    connections.settings["second"] = {
        **connections.settings["default"],
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(tmp_path_factory.mktemp("second") / "second.sqlite3"),
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
    }
    try:
        with django_db_blocker.unblock():
            call_command("migrate", database="second", verbosity=0)
        yield "second"
    finally:
        connections["second"].close()
        del connections["second"]
        del connections.settings["second"]


@pytest.fixture(params=["a setting", "a router that reads from a replica"])
def alias(request) -> Iterator[str]:
    """Where the sessions are: not where Django would look for them by itself."""
    if request.param == "a setting":
        with override_settings(AGENT_SESSIONS={"DATABASE": "second"}):
            yield "second"
    else:
        with override_settings(DATABASE_ROUTERS=[ReadsElsewhere()]):
            yield "default"


@pytest.fixture
def talk(alias) -> Session:
    store = SessionStore()
    session = store.open("talk", title="Plans")
    store.append_many(store.agents.open(session, dialect="strands"), [said("user", "the word")])
    return Session.objects.using(alias).get(pk=session.id)


def page(talk: Session, name: str) -> str:
    return reverse(f"admin:agent_sessions_session_{name}", args=[talk.pk])


def events(alias: str) -> list[str]:
    rows = AuditEvent.objects.using(alias).order_by("id")
    return [*rows.values_list("action", flat=True)]


def act(client, talk: Session, action: str, **fields: str):
    return client.post(SESSIONS, {"action": action, "_selected_action": [str(talk.pk)], **fields})


def test_the_list_shows_and_searches_the_sessions_of_the_store(root, talk, alias):
    for query in ("", "?q=word", "?framework=strands", "?namespace=", "?held=no&redacted=no"):
        answer = root.get(f"{SESSIONS}{query}")
        assert answer.status_code == 200
        assert page(talk, "change") in answer.content.decode()

    # The search, and the message of which it shows words.
    assert events(alias) == ["searched", "searched"]


def test_a_conversation_is_read_and_recorded_in_one_place(root, talk, alias):
    assert "the word" in root.get(page(talk, "change")).content.decode()
    assert root.post(page(talk, "find"), {"query": "word"}).status_code == 200
    assert root.get(page(talk, "history")).status_code == 200

    assert set(events(alias)) <= {"read", "searched"}
    assert "read" in events(alias)


def test_the_audit_trail_is_that_of_the_store(root, talk, alias):
    event = audit.record(AuditEvent.Action.READ, session=talk.pk, actor="somebody")

    for url in (EVENTS, reverse("admin:agent_sessions_auditevent_change", args=[event.pk])):
        shown = root.get(url).content.decode()
        assert "somebody" in shown
        assert page(talk, "change") in shown, "the session exists"


def test_a_redaction_is_made_and_recorded_in_one_place(root, talk, alias):
    url = page(talk, "redact")
    assert root.get(url).status_code == 200
    asked = {"what": "text", "text": "word", "step": "preview"}
    preview = root.post(url, asked).content.decode()
    answer = root.post(url, {**fields(preview), "reason": "it is a secret"})

    assert answer.status_code == 302
    assert SessionMessage.objects.using(alias).get().message == said("user", "the [REDACTED]")
    assert events(alias) == ["read", "redacted"]


def test_an_export_is_read_and_recorded_in_one_place(root, talk, alias):
    for answer in (
        root.post(page(talk, "export"), {"form": "markdown"}),
        root.post(page(talk, "export"), {"form": "jsonl"}),
        act(root, talk, "export_markdown"),
        act(root, talk, "export_jsonl"),
    ):
        assert b"the word" in b"".join(answer.streaming_content)

    assert events(alias) == ["exported"] * 4


def test_a_hold_is_set_and_recorded_in_one_place(root, talk, alias):
    assert act(root, talk, "hold_selected", reason="Case 7").status_code == 302
    assert Session.objects.using(alias).get().legal_hold
    assert act(root, talk, "release_selected", reason="Case closed").status_code == 302

    assert not Session.objects.using(alias).get().legal_hold
    assert events(alias) == ["held", "released"]


@pytest.mark.parametrize("way", ["page", "action"])
def test_a_deletion_is_made_and_recorded_in_one_place(root, talk, alias, way):
    if way == "page":
        answer = root.post(page(talk, "delete"), {"post": "yes"})
    else:
        answer = act(root, talk, "delete_selected", post="yes")

    assert answer.status_code == 302
    assert not Session.objects.using(alias).exists()
    assert events(alias) == ["deleted"]


def test_usage_is_counted_and_shown(root, talk, alias):
    update = reverse("admin:agent_sessions_usagerollup_update")

    assert root.post(update).status_code == 302
    assert root.get("/admin/agent_sessions/usagerollup/").status_code == 200
