"""``manage.py agent_sessions_encrypt``."""

from __future__ import annotations

import os
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from django_agent_sessions.content import codec
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import DataKey, SessionAgent, SessionMessage, StoredPart
from django_agent_sessions.store.snapshots import SnapshotStorageStore
from django_agent_sessions.values.records import AgentState
from tests.encryption.test_encryption import stored

pytestmark = pytest.mark.django_db(transaction=True)

MASTER = bytes(range(32))


def run(action: str) -> str:
    output = StringIO()
    call_command("agent_sessions_encrypt", action, stdout=output)
    return output.getvalue()


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.fixture
def plain(store):
    """A plain conversation with everything in it, and a function that reads all of it."""
    session = store.open("s")
    agent = store.agents.open(session, data=AgentState({"plan": "planted"}))
    store.append_many(
        agent, [user(f"{n} planted word that is as long as needed") for n in range(60)]
    )
    redact(session.id, Find("7 planted word"), actor="test", reason="a test")
    store.snapshots.take(agent)
    SnapshotStorageStore(store).write_object("notes", b"planted bytes")

    def read() -> Any:
        rows = SessionMessage.objects.order_by("id")
        return (
            store.payloads(agent),
            [(row.message, row.redact_message) for row in rows],
            [each.data for each in store.agents.list(session)],
            SnapshotStorageStore(store).read_object("notes"),
        )

    return read


def columns() -> list[Any]:
    return [
        *stored(SessionMessage, "message"),
        *stored(SessionMessage, "text"),
    ]


def test_everything_is_encrypted_rotated_and_decrypted_again(plain, encrypt, settings):
    before, texts = plain(), sorted(stored(SessionMessage, "text"))
    encrypt()
    assert plain() == before

    run("encrypt")
    assert plain() == before
    assert "planted" not in str(columns())
    assert run("encrypt").endswith(" 0 rewritten\n")

    first = columns()
    run("rotate")
    assert plain() == before
    keys = {text[:37] for text in columns() if text}
    assert len(keys) == 1
    assert keys.isdisjoint(text[:37] for text in first)

    with pytest.raises(CommandError, match="DECRYPT_ONLY"):
        run("decrypt")
    encrypt(DECRYPT_ONLY=True)
    run("decrypt")
    assert not any(codec.ENVELOPE.match(text) for text in columns())
    settings.AGENT_SESSIONS = {}
    assert plain() == before
    assert sorted(stored(SessionMessage, "text")) == texts


def test_a_new_master_key_wraps_the_data_keys_and_the_old_one_can_go(plain, encrypt):
    before = plain()
    encrypt()
    run("encrypt")
    contents = columns()
    new = os.urandom(32)

    encrypt(KEYS={"one": MASTER, "two": new, "CURRENT": "two"})
    assert run("rewrap").startswith("1 data key")
    encrypt(KEYS={"two": new})

    assert columns() == contents
    assert plain() == before


def test_a_row_that_changed_meanwhile_is_not_overwritten(plain, encrypted, monkeypatch, store):
    """Between the reading and the writing of a batch, a message is replaced."""
    from django_agent_sessions.store import _resealing

    write = _resealing._write
    agent = store.agents.open(store.open("s"))

    def late(*args: Any) -> int:
        store.messages.update(agent, 3, user("newer"))
        return write(*args)

    monkeypatch.setattr(_resealing, "_write", late)
    run("encrypt")

    assert store.payloads(agent)[3] == user("newer")


@pytest.mark.parametrize("model", [SessionAgent, SessionMessage, StoredPart])
@pytest.mark.parametrize("action", ["encrypt", "decrypt"])
def test_what_is_deleted_meanwhile_is_left_out(plain, encrypt, monkeypatch, store, model, action):
    """Between the reading and the writing of a batch, sessions and objects are deleted."""
    from django_agent_sessions.store import _resealing

    encrypt()
    if action == "decrypt":
        run("encrypt")
    codec = encrypt(DECRYPT_ONLY=action == "decrypt")
    read = _resealing._rows

    def late(connection: Any, sql: str, *args: Any, **kwargs: Any) -> list[Any]:
        rows = read(connection, sql, *args, **kwargs)
        if f"{model._meta.db_table}\x22" in sql.replace("`", "\x22"):
            store.delete("s")
            SnapshotStorageStore(store).delete_object("notes")
            codec.forget()
        return rows

    monkeypatch.setattr(_resealing, "_rows", late)
    run(action)

    assert not model._default_manager.exists()


def test_what_has_a_destroyed_key_stays_as_it_is_and_is_counted(plain, encrypted):
    run("encrypt")
    DataKey.objects.all().delete()
    encrypted.forget()
    before = columns()

    assert "left as they are: their data keys were destroyed" in run("encrypt")

    assert columns() == before


def test_without_the_setting_the_command_says_what_is_missing(db, settings):
    if not codec.is_plain():
        pytest.skip("all tests are encrypted")
    with pytest.raises(CommandError, match="is not set"):
        run("encrypt")
    assert connection.vendor
