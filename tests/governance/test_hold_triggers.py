"""On PostgreSQL plain SQL, too, removes and changes nothing that a session under legal hold has."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.db import IntegrityError, connection, transaction

from django_agent_sessions.content import codec
from django_agent_sessions.db.retries import write
from django_agent_sessions.exceptions import LegalHoldError
from django_agent_sessions.governance import legal_hold, reviews
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import (
    HeldCopy,
    Label,
    MessageFeedback,
    Note,
    Session,
    SessionMessage,
)
from django_agent_sessions.sql.triggers import HOLD, TRIGGERS, create_trigger, trigger_problem
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store._held_copies import keep_messages
from django_agent_sessions.store._offload import move_binaries_to_storage
from django_agent_sessions.store._resealing import reseal
from tests.governance.holding import TABLES, hold_everything
from tests.governance.redaction.timelines import rows_of
from tests.sealed import PREFIX, ToyCodec

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(
        settings.TEST_DATABASE != "postgresql", reason="only PostgreSQL has triggers here"
    ),
]


WAYS = {
    **{
        f"delete from {model._meta.model_name}": f"DELETE FROM {model._meta.db_table}"
        for model in TABLES
    },
    "payload": "UPDATE agent_sessions_sessionmessage SET message = '{}'",
    "text": "UPDATE agent_sessions_sessionmessage SET text = 'changed'",
    "title": "UPDATE agent_sessions_session SET title = 'Changed'",
    "metadata": "UPDATE agent_sessions_session SET metadata = '{}'",
    "session id": "UPDATE agent_sessions_session SET session_id = 'another'",
    "release": "UPDATE agent_sessions_session SET legal_hold = false",
    "insert over a row": (
        "INSERT INTO agent_sessions_session SELECT * FROM agent_sessions_session"
        " ON CONFLICT (id) DO UPDATE SET title = 'Changed'"
    ),
}


@pytest.fixture
def held(store):
    return hold_everything(store)


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        # What waits for the end of the transaction is checked now, what comes then is not.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
        cursor.execute(statement)


@pytest.mark.parametrize("way", WAYS)
def test_plain_sql_is_refused(held, way):
    before = rows_of(*TABLES)

    with pytest.raises(IntegrityError, match="under legal hold"), transaction.atomic():
        execute(WAYS[way])

    assert rows_of(*TABLES) == before


@pytest.mark.parametrize("model", [HeldCopy, MessageFeedback, Note, Label])
def test_what_was_overwritten_and_what_people_said_about_it_is_not_deleted_either(
    store, session, ada, model
):
    agent = store.agents.open(session)
    message = store.append(agent, {"role": "user", "content": "a"})
    store.feedback.save(message.id, 1, comment="good")
    reviews.add_note(session.id, "odd", author=ada)
    reviews.set_labels(session.id, ["bug"], actor=ada)
    legal_hold.hold(session.id, reason="case 1")
    store.messages.update(agent, 0, {"role": "user", "content": "b"})

    with pytest.raises(IntegrityError, match="under legal hold"), transaction.atomic():
        model._base_manager.all().delete()
    assert model._base_manager.count() == 1
    legal_hold.release(session.id, reason="closed")
    assert store.delete(session.session_id)
    assert not model._base_manager.exists()


@pytest.mark.parametrize("way", ["delete from sessionmessage", "text"])
def test_what_the_store_is_refused_names_the_hold(held, way):
    with pytest.raises(LegalHoldError, match=r"^changing it: .* legal hold; release it first$"):
        write("default", lambda unsure: execute(WAYS[way]), what="changing it")


def test_another_session_is_deleted_and_changed(store, held):
    agent = store.agents.open(store.open("free"))
    store.append(agent, {"role": "user", "content": "a"})

    execute("UPDATE agent_sessions_session SET title = 'New' WHERE session_id = 'free'")
    execute(f"UPDATE agent_sessions_sessionmessage SET text = 'b' WHERE agent_id = '{agent.id}'")
    assert store.get("free").title == "New"
    assert store.delete("free")
    assert Session.objects.get().pk == held.id


def test_counters_dates_and_what_was_empty_are_written(store, held):
    execute("UPDATE agent_sessions_session SET archived_at = now(), message_count = 2")
    empty = store.open("empty")
    legal_hold.hold(empty.id, reason="case 2")
    execute(f"UPDATE agent_sessions_session SET title = 'First' WHERE id = '{empty.id}'")

    assert store.get("empty").title == "First"


def test_a_copy_permits_the_change_of_that_session_in_that_transaction_alone(store, held):
    other = store.open("other")
    their = store.agents.open(other)
    store.append(their, {"role": "user", "content": "a"})
    legal_hold.hold(other.id, reason="case 2")
    agent = store.agents.find(store.get("held"), "default")

    with transaction.atomic():
        store.messages.update(agent, 1, {"role": "user", "content": "c"})
        with pytest.raises(IntegrityError, match="under legal hold"), transaction.atomic():
            execute(
                f"UPDATE agent_sessions_sessionmessage SET text = '' WHERE agent_id = '{their.id}'"
            )

    assert store.payloads(agent)[1]["content"] == "c"


def test_copies_of_two_sessions_permit_the_changes_of_both(store, held):
    other = store.open("other")
    theirs = store.agents.open(other)
    store.append(theirs, {"role": "user", "content": "a"})
    legal_hold.hold(other.id, reason="case 2")
    ours = store.agents.find(store.get("held"), "default")

    with transaction.atomic():
        for session in Session.objects.all():
            keep_messages("default", session, session.messages.values_list("pk", flat=True))
        execute(WAYS["text"])

    assert not SessionMessage.objects.exclude(text="changed").exists()
    assert [len(store.payloads(agent)) for agent in (ours, theirs)] == [2, 1]


def test_after_the_release_everything_is_free(store, held):
    legal_hold.release(held.id, reason="closed")

    redact(held.id, Find("calm"), reason="r")
    assert store.delete("held")


@pytest.mark.parametrize("trigger", HOLD, ids=lambda trigger: trigger.name)
def test_a_trigger_that_was_dropped_is_missed_and_comes_back(trigger):
    execute(f"DROP TRIGGER {trigger.name} ON {trigger.table}")
    assert trigger_problem("default", trigger) == "missing"

    create_trigger("default", trigger)

    assert [trigger_problem("default", one) for one in TRIGGERS] == [""] * len(TRIGGERS)


def test_sessions_of_the_store_are_deleted_with_their_thousand_messages(store):
    agent = store.agents.open(store.open("long"))
    store.append_many(agent, [{"role": "user", "content": "a"}] * 1000)

    assert SessionStore().delete("long")
    assert not SessionMessage.objects.exists()


class Sealing(ToyCodec):
    """Seals what is plain."""

    def is_current(self, stored: str, holder: Any) -> bool:
        return stored.startswith(PREFIX)

    def open(self, row: Any, column: str, stored: str) -> str:
        return super().open(row, column, stored) if self.is_current(stored, None) else stored


def test_content_of_a_held_session_is_moved_to_files_and_sealed_anew(store, settings, tmp_path):
    picture = {"format": "png", "source": {"bytes": b"png" * 500}}
    payload = {"role": "user", "content": [{"text": "said"}, {"image": picture}]}
    agent = store.agents.open(store.open("held", title="Planned"), dialect="strands")
    store.append(agent, payload)
    legal_hold.hold(store.get("held").id, reason="case 1")
    settings.MEDIA_ROOT = tmp_path
    settings.AGENT_SESSIONS = {"BLOB_MIN_BYTES": 100, "BLOB_STORAGE": "default"}

    assert move_binaries_to_storage().messages == 1
    previous = codec.install(Sealing())
    try:
        reseal("default")
        with connection.cursor() as cursor:
            cursor.execute("SELECT message FROM agent_sessions_sessionmessage")
            assert str(cursor.fetchone()[0]).startswith(PREFIX)
        assert store.payloads(agent) == [payload]
    finally:
        codec.install(previous)
