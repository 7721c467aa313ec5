from __future__ import annotations

import pytest
from django.db import connection, transaction

from django_agent_sessions.exceptions import PayloadError, SessionNotFoundError
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.testing import columns_containing, files_containing
from django_agent_sessions.values.records import Usage
from tests.texts import text_of

pytestmark = pytest.mark.django_db


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def test_popping_takes_the_last_message_of_this_agent_only(store, agent):
    other = store.agents.open(store.open("session-1"), "other")
    store.append_many(agent, [user("a"), user("b")])
    store.append(other, user("theirs"))

    assert [store.pop(agent) for _ in range(3)] == [user("b"), user("a"), None]
    assert store.payloads(other) == [user("theirs")]
    assert store.sessions.usage("session-1").messages == 1
    assert store.append(agent, user("c")).message_id == 0


def test_popping_gives_the_redacted_version(store, agent):
    store.append(agent, user("secret"))
    store.messages.redact(agent, 0, user("[gone]"))

    assert store.pop(agent) == user("[gone]")


def test_clearing_says_how_many_there_were(store, agent):
    other = store.agents.open(store.open("session-1"), "other")
    store.append_many(agent, [user("a")] * 300)
    store.append(other, user("theirs"))

    assert store.clear(agent) == 300
    assert store.clear(agent) == 0
    assert store.payloads(agent) == []
    assert store.payloads(other) == [user("theirs")]
    assert store.sessions.usage("session-1").messages == 1
    assert store.append(agent, user("b")).message_id == 0


def test_popping_and_clearing_what_was_deleted(store, agent):
    store.append(agent, user("a"))
    store.delete("session-1")

    assert store.pop(agent) is None
    assert store.clear(agent) == 0


# --- redaction -------------------------------------------------------------------------------


def test_a_redaction_overwrites_every_column_of_the_message(store, agent):
    store.append_many(agent, [user("a"), user("plantedsecret"), user("c")])

    epoch = store.messages.redact(agent, 1, {"role": "assistant", "content": "[gone]"})

    assert columns_containing("plantedsecret") == []
    gone = {"role": "assistant", "content": "[gone]"}
    record = store.messages.find(agent, 1)
    assert record.message == record.redact_message == record.content == gone
    assert (record.role, record.revision) == ("assistant", 1)
    row = SessionMessage.objects.get(message_id=1)
    assert text_of(row) == "[gone]"
    assert row.redacted_at == row.updated_at
    assert epoch == store.get("session-1").redaction_epoch == 1
    assert store.payloads(agent) == [user("a"), gone, user("c")]
    assert store.messages.redact(agent, 1, user("[again]")) == 2
    assert Session.objects.get().redactions == 2


def test_redacting_what_is_not_there_changes_nothing(store, agent):
    store.append(agent, user("a"))
    with transaction.atomic():
        with pytest.raises(SessionNotFoundError, match="the message does not exist"):
            store.messages.redact(agent, 1, user("[gone]"))
        with pytest.raises(PayloadError):
            store.messages.redact(agent, 0, object())

    assert store.get("session-1").redaction_epoch == 0
    assert store.payloads(agent) == [user("a")]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("size", [1, 1000, 100_000], ids=["in a row", "in a page", "in many pages"])
def test_after_a_redaction_no_byte_of_the_original_is_in_a_file(upstream_sqlite, size):
    store = SessionStore()
    agent = store.agents.open(store.open("s"))
    store.append_many(agent, [user("a"), user("plantedsecret " * size), user("c" * 5000)])
    # A first version that an update left behind in a free page is as secret.
    store.messages.update(agent, 2, user("c"))
    if connection.vendor == "sqlite":
        assert files_containing("plantedsecret")

    store.messages.redact(agent, 1, user("[gone]"))

    assert files_containing("plantedsecret") == []
    assert columns_containing("plantedsecret") == []
    assert store.payloads(agent) == [user("a"), user("[gone]"), user("c")]


@pytest.mark.django_db(transaction=True)
def test_a_redaction_in_a_transaction_is_in_no_file_after_its_commit(upstream_sqlite):
    store = SessionStore()
    agent = store.agents.open(store.open("s"))
    store.append(agent, user("plantedsecret " * 1000))

    with transaction.atomic():
        store.append(agent, user("b"))
        store.messages.redact(agent, 0, user("[gone]"))

    assert files_containing("plantedsecret") == []


@pytest.mark.django_db(transaction=True)
def test_a_redaction_that_is_rolled_back_leaves_the_message(store):
    agent = store.agents.open(store.open("s"))
    store.append(agent, user("stays"))

    with transaction.atomic():
        store.messages.redact(agent, 0, user("[gone]"))
        transaction.set_rollback(True)

    assert store.payloads(agent) == [user("stays")]
    assert store.sessions.usage("s") == Usage(1)


@pytest.mark.django_db(transaction=True)
def test_a_log_that_somebody_reads_is_reported_with_no_content(upstream_sqlite, caplog):
    store = SessionStore()
    agent = store.agents.open(store.open("s"))
    store.append(agent, user("plantedsecret"))
    reader = connection.copy()
    try:
        with reader.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SELECT COUNT(*) FROM agent_sessions_sessionmessage")
            cursor.fetchone()

            store.messages.redact(agent, 0, user("[gone]"))

            cursor.execute("ROLLBACK")
    finally:
        reader.close()

    assert store.payloads(agent) == [user("[gone]")]
    assert ("the write-ahead log of default could not be emptied" in caplog.text) == (
        connection.vendor == "sqlite"
    )
    assert "plantedsecret" not in caplog.text
