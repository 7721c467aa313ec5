"""After one find-and-redact a secret is nowhere: no column, no file, no dump, no log, no audit."""

from __future__ import annotations

import base64
import json
import logging
import os
import shutil
import subprocess

import pytest
from django.db import connection

from django_agent_sessions.content import codec
from django_agent_sessions.governance.redaction import Detect, Find, redact
from django_agent_sessions.models import (
    AuditEvent,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
)
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.testing import columns_containing, files_containing

from .planting import SECRET, plant

pytestmark = pytest.mark.django_db(transaction=True)

ENCODED = base64.b64encode(SECRET.encode()).decode()


def columns_holding_any_case(text: str) -> list[str]:
    found: list[str] = []
    models = (AuditEvent, Session, SessionAgent, SessionMessage, SessionMultiAgent)
    with connection.cursor() as cursor:
        for model in models:
            table = model._meta.db_table
            cursor.execute(f"SELECT * FROM {table}")
            found += [table for row in cursor.fetchall() if text in str(row).lower()]
    return found


def dump() -> str:
    settings = connection.settings_dict
    made = subprocess.run(
        [
            *("pg_dump", "-h", settings["HOST"], "-p", str(settings["PORT"])),
            *("-U", settings["USER"], settings["NAME"]),
        ],
        env={**os.environ, "PGPASSWORD": settings["PASSWORD"]},
        capture_output=True,
        text=True,
        check=True,
    )
    return made.stdout


def test_a_secret_planted_everywhere_is_nowhere(upstream_sqlite, store, caplog, ada):
    caplog.set_level(logging.DEBUG)
    logging.getLogger("django.db.backends").setLevel(logging.INFO)
    session = plant(store)
    holding = set(columns_containing(SECRET))
    assert {column.split("_session", 1)[-1].split(".")[-1] for column in holding} >= {
        "title", "metadata", "origin", "state", "conversation_manager_state", "internal_state",
        "message", *([] if codec.hides_text() else ["text"]),
    }  # fmt: skip
    if connection.vendor == "sqlite" and not codec.hides_text():
        assert files_containing(SECRET)

    done = redact(session.id, Find(SECRET), reason=f"GDPR: {SECRET.upper()}", actor=ada)

    assert (done.messages, done.states, done.epoch) == (14, 3, 1)
    assert columns_containing(SECRET) == []
    assert columns_holding_any_case(SECRET) == []
    assert columns_containing(ENCODED) == []
    assert (
        files_containing(SECRET)
        == files_containing(SECRET.upper())
        == files_containing(ENCODED)
        == []
    )
    assert SECRET not in caplog.text.lower()
    if connection.vendor == "postgresql" and shutil.which("pg_dump"):
        dumped = dump()
        assert "About [REDACTED]" in dumped
        assert SECRET not in dumped.lower()
        assert ENCODED not in dumped
    event = AuditEvent.objects.get()
    assert (event.actor, event.actor_id) == ("ada", str(ada.pk))
    assert event.reason == "GDPR: [REDACTED]"
    assert SECRET not in json.dumps(event.details).lower()
    assert set(SessionMessage.objects.values_list("redaction", flat=True)) == {event.id}


def test_once_more_finds_nothing_and_writes_nothing(store):
    session = plant(store)
    redact(session.id, Find(SECRET), reason="r")
    before = list(SessionMessage.objects.order_by("id").values())

    again = redact(session.id, Find(SECRET), reason="r")

    assert (again.hits, again.messages, again.states, again.epoch) == ([], 0, 0, 1)
    assert AuditEvent.objects.count() == 1
    assert list(SessionMessage.objects.order_by("id").values()) == before


def test_a_dry_run_lists_what_the_redaction_has_and_writes_nothing(store):
    session = plant(store)
    tables = (Session, SessionAgent, SessionMessage, SessionMultiAgent, AuditEvent)
    before = [list(table.objects.order_by("id").values()) for table in tables]

    preview = redact(session.id, Find(SECRET), reason="", dry_run=True)

    assert [list(table.objects.order_by("id").values()) for table in tables] == before
    assert (preview.dry_run, preview.epoch) == (True, 0)
    done = redact(session.id, Find(SECRET), reason="r")
    assert done.hits == preview.hits
    assert (done.messages, done.states) == (preview.messages, preview.states)
    assert all(SECRET not in str(hit.place) and SECRET not in repr(hit) for hit in done.hits)
    kinds = {hit.place.kind for hit in done.hits}
    assert kinds == {"message", "agent", "orchestrator", "session"}


@pytest.mark.parametrize(
    ("planted", "wanted"),
    [
        (SECRET, SECRET.upper()),
        ("Zoë's planted secret", "ZOË'S  PLANTED\nSECRET"),
        ('say "planted/secret\\"', 'say "planted/secret\\"'),
        ("plantedsecret\nof two lines", "plantedsecret of two lines"),
        ("O’Neill’s planted\u2011secret", "O'Neill's planted-secret"),
        ("plan\u00adted secret of Zoë", "planted secret of Zoë"),
    ],
)
def test_every_spelling_is_found(store, planted, wanted):
    session = plant(store, planted)

    done = redact(session.id, Find(wanted), reason="r")

    assert (done.messages, done.states) == (14, 3)
    assert columns_containing("lanted") == columns_containing("LANTED") == []


def test_what_is_not_the_secret_stays(store):
    session = plant(store)
    other = plant(store, session_id="other")
    theirs = list(SessionMessage.objects.filter(session=other.id).order_by("id").values())

    redact(session.id, Find(SECRET), reason="r")

    assert list(SessionMessage.objects.filter(session=other.id).order_by("id").values()) == theirs
    agent = store.agents.find(session, "openai")
    user, reasoning, call, output, answer = store.payloads(agent)
    assert user == {"role": "user", "content": "My card is [REDACTED]."}
    assert reasoning["id"] == "rs_1"
    assert reasoning["encrypted_content"] is None
    assert json.loads(call["arguments"]) == {"a": 1, "b": "[REDACTED]"}
    assert (call["name"], call["call_id"], output["call_id"]) == ("add", "call_1", "call_1")
    assert output["output"] == "3 [REDACTED]"
    assert answer["content"] == [{"type": "output_text", "text": "[REDACTED]", "annotations": []}]
    row = SessionMessage.objects.get(agent=agent.id, message_id=5)
    assert row.message == row.redact_message == CorruptPayload('{"content": "[REDACTED]')
    graph = store.multi_agents.find(session, "graph").state
    assert (graph["id"], graph["completed_nodes"]) == ("graph", ["research"])
    assert graph["node_results"]["write"]["result"] == "the error was [REDACTED]"


def test_detectors_find_everywhere_and_name_what_they_found(store):
    session = plant(store, "ada@example.org")

    done = redact(session.id, Detect(("email",)), reason="asked by ada@example.org")

    assert {hit.kind for hit in done.hits} == {"EMAIL"}
    assert columns_containing("ada@example") == columns_containing("ADA@EXAMPLE") == []
    assert Session.objects.get().title == "About [REDACTED:EMAIL]"
    assert AuditEvent.objects.get().reason == "asked by [REDACTED]"
    assert AuditEvent.objects.get().details["kinds"] == {"EMAIL": len(done.hits)}


def test_a_pattern_finds_everywhere(store):
    session = plant(store)
    redact(session.id, Find(r"planted[a-z]+", pattern=True), reason="plantedsecret and planted")

    assert columns_containing(SECRET) == columns_containing(SECRET.upper()) == []


def test_ids_that_programs_use_are_told_and_stay(store):
    session = store.open("chat-of-plantedsecret")
    store.append(store.agents.open(session, "plantedsecret"), {"role": "user", "content": SECRET})

    done = redact(session.id, Find(SECRET), reason="r")

    assert {str(place.column) for place in done.kept} == {"session_id", "agent_id"}
    assert store.agents.find(session, "plantedsecret") is not None


def test_sql_with_debug_logging_is_the_only_log_with_content(store, caplog, settings):
    """Django itself logs parameters where DEBUG is on; nothing of ours does."""
    caplog.set_level(logging.DEBUG)
    session = plant(store)
    caplog.clear()

    redact(session.id, Find(SECRET), reason="r")

    named = {record.name for record in caplog.records if SECRET in record.getMessage()}
    assert named <= {"django.db.backends"}
