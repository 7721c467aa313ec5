"""An erasure destroys the keys of the person, and nobody else's content."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, connections, transaction
from django.urls import reverse
from django.utils import timezone

from django_agent_sessions.blobs.garbage_collection import collect
from django_agent_sessions.exceptions import EncryptionKeyError
from django_agent_sessions.governance import erased_keys, legal_hold
from django_agent_sessions.governance.erasure import erase, verify
from django_agent_sessions.governance.retention import prune
from django_agent_sessions.models import (
    AuditEvent,
    Blob,
    BlobReference,
    DataKey,
    Session,
    SessionMessage,
    deletion,
)
from django_agent_sessions.store import SessionStore
from tests.encryption.test_encryption import stored, user

pytestmark = pytest.mark.django_db(transaction=True)

NAMES = ("first", "second")


def keys_of(person: Any) -> list[str]:
    rows = DataKey.objects.filter(owner=str(person.pk)).order_by("generation")
    return [key.hex for key in rows.values_list("pk", flat=True)]


@pytest.fixture
def conversations(encrypted, ada, bob):
    """A conversation of Ada's, and one that was hers and is Bob's now."""
    mine = SessionStore(owner=ada)
    agents = [mine.agents.open(mine.open(name)) for name in ("hers", "given")]
    for agent in agents:
        mine.append_many(agent, [user("one"), user("two")])
    mine.snapshots.take(agents[1])
    Session.objects.filter(session_id="given").update(owner=bob)
    return agents


def read_bobs(bob: Any) -> Any:
    his = SessionStore(owner=bob)
    agent = his.agents.open(his.open("given"))
    return his.payloads(agent), len(his.snapshots.list(agent))


def test_the_keys_are_destroyed_and_named_in_the_receipt(conversations, encrypted, ada, bob):
    encrypted.keys.rotate()
    SessionStore(owner=ada).append(conversations[0], user("three"))
    keys = keys_of(ada)
    assert len(keys) == 2

    receipt = erase(ada, reason="Request 31")

    assert sorted(receipt.keys) == sorted(keys)
    assert (receipt.counts["keys"], receipt.keys_kept) == (2, [])
    assert keys_of(ada) == []
    assert verify(receipt.to_json()) == []
    assert read_bobs(bob) == ([user("one"), user("two")], 1)


def test_a_row_of_a_backup_cannot_be_read_any_more(conversations, encrypted, ada):
    row = SessionMessage.objects.get(session__session_id="hers", message_id=0)
    table = connection.ops.quote_name(SessionMessage._meta.db_table)
    with connection.cursor() as cursor:
        key = SessionMessage._meta.pk.get_db_prep_value(row.pk, connection)
        cursor.execute(f"SELECT message FROM {table} WHERE id = %s", [key])
        (text,) = cursor.fetchone()

    erase(ada, reason="Request 31")

    # Also in this process, which had the key in memory.
    with pytest.raises(EncryptionKeyError, match="destroyed"):
        encrypted.open(row.pk, f"{SessionMessage._meta.db_table}.message", text)


def test_a_receipt_stops_verifying_when_a_key_is_put_back(conversations, ada):
    (row,) = DataKey.objects.filter(owner=str(ada.pk))
    text = erase(ada, reason="Request 31").to_json()

    row.save(force_insert=True)

    assert verify(text) == ["a destroyed data key is in the database"]


def test_a_dry_run_counts_the_keys(conversations, ada):
    receipt = erase(ada, reason="", dry_run=True)

    assert (receipt.counts["keys"], list(receipt.keys)) == (1, [])
    assert len(keys_of(ada)) == 1


def test_a_key_that_a_damaged_row_of_another_owner_needs_is_kept(conversations, ada, tmp_path):
    table = connection.ops.quote_name(SessionMessage._meta.db_table)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {table} SET message = SUBSTR(message, 1, 60)")
    keys, path = keys_of(ada), tmp_path / "receipt.json"
    errors = StringIO()

    call_command(
        "agent_sessions_erase",
        owner=ada.username,
        reason="Request 31",
        receipt=Path(path),
        stderr=errors,
    )

    receipt = json.loads(path.read_text())["receipt"]
    assert (receipt["keys"], receipt["keys_kept"], receipt["counts"]["keys"]) == ([], keys, 0)
    assert keys[0] in errors.getvalue()
    assert keys_of(ada) == keys


def test_a_key_that_another_database_needs_is_kept(conversations, ada, monkeypatch):
    monkeypatch.setattr(
        erased_keys, "databases_with_sessions", lambda using: ([using, "archive"], [])
    )
    monkeypatch.setattr(erased_keys, "has_content_of", lambda using, keys: using == "archive")

    receipt = erase(ada, reason="Request 31")

    assert receipt.keys_kept == keys_of(ada) != []
    assert connections["default"].alias == "default"


def test_an_interrupted_erasure_names_the_keys_when_it_is_repeated(
    conversations, encrypted, ada, monkeypatch
):
    keys, destroy = keys_of(ada), encrypted.destroy_keys

    def interrupted(ids: list[str]) -> None:
        destroy(ids)
        raise KeyboardInterrupt

    monkeypatch.setattr(encrypted, "destroy_keys", interrupted)
    with pytest.raises(KeyboardInterrupt):
        erase(ada, reason="Request 31")
    monkeypatch.undo()

    receipt = erase(ada, reason="Request 31")

    assert list(receipt.keys) == keys
    assert AuditEvent.objects.filter(action="erased").count() == 2


def test_words_that_others_have_stay_encrypted_while_the_key_is_replaced(
    conversations, encrypted, ada, bob
):
    erase(ada, reason="Request 31")

    (key,) = keys_of(bob)
    texts = stored(SessionMessage, "message")
    assert len(texts) == 2
    assert all(text.startswith(f"enc1:{key}:") for text in texts)


def by_store(person: Any) -> None:
    mine = SessionStore(owner=person)
    assert all(mine.delete(name) for name in NAMES)


def by_queryset(person: Any) -> None:
    Session.objects.filter(owner=person).delete()


def by_queryset_in_a_transaction(person: Any) -> None:
    with transaction.atomic():
        Session.objects.filter(owner=person).delete()


def by_the_user(person: Any) -> None:
    person.delete()


def by_prune(person: Any) -> None:
    Session.objects.update(expires_at=timezone.now())
    assert prune(owner=person).sessions.total() == len(NAMES)


def by_an_instance(person: Any) -> None:
    for row in Session.objects.only("id"):
        row.delete()


def by_messages(person: Any) -> None:
    SessionMessage.objects.all().delete()
    assert not SessionMessage.objects.exists()
    by_queryset(person)


@pytest.mark.parametrize(
    "delete",
    [
        by_store,
        by_queryset,
        by_queryset_in_a_transaction,
        by_the_user,
        by_prune,
        by_an_instance,
        by_messages,
    ],
)
def test_sessions_are_deleted_without_their_key(encrypt, ada, delete):
    encrypted = encrypt(METADATA=True)
    mine = SessionStore(owner=ada)
    for name in NAMES:
        session = mine.open(name, title="Lisbon", metadata={"note": "a word"})
        agent = mine.agents.open(session)
        mine.append_many(agent, [user("one"), user("two")])
        mine.snapshots.take(agent)
    encrypted.destroy_keys(keys_of(ada))
    with pytest.raises(EncryptionKeyError, match="destroyed"):
        str(list(Session.objects.all()))

    delete(ada)

    assert (Session.objects.count(), SessionMessage.objects.count()) == (0, 0)
    deleted = AuditEvent.objects.filter(action=AuditEvent.Action.DELETED)
    assert sum(len(event.details.get("sessions", [""])) for event in deleted) == len(NAMES)


def test_a_large_session_is_deleted_without_its_key(encrypt, ada, monkeypatch):
    monkeypatch.setattr(deletion, "MAX_MESSAGES", 2)
    encrypted = encrypt()
    mine = SessionStore(owner=ada)
    agent = mine.agents.open(mine.open("large", title="Lisbon"))
    mine.append_many(agent, [user(str(number)) for number in range(5)])
    encrypted.destroy_keys(keys_of(ada))

    assert mine.delete("large")

    assert (Session.objects.count(), SessionMessage.objects.count()) == (0, 0)


def test_the_page_that_confirms_a_deletion_of_the_user_needs_no_key(encrypt, ada, root):
    encrypted = encrypt()
    SessionStore(owner=ada).open("hers", title="Lisbon")
    encrypted.destroy_keys(keys_of(ada))

    url = reverse("admin:auth_user_delete", args=[ada.pk])
    assert "hers" in root.get(url).content.decode()
    root.post(url, {"post": "yes"})

    assert not Session.objects.exists()


def test_the_page_of_one_session_deletes_it_without_its_key(encrypt, ada, root):
    encrypted = encrypt(METADATA=True)
    session = SessionStore(owner=ada).open("hers", title="Lisbon", metadata={"note": "a word"})
    encrypted.destroy_keys(keys_of(ada))

    url = reverse("admin:agent_sessions_session_delete", args=[session.id])
    assert "hers" in root.get(url).content.decode()
    root.post(url, {"post": "yes", "reason": "A restored backup"})

    assert not Session.objects.exists()


def test_the_action_of_the_list_deletes_them_without_their_key(encrypt, ada, root):
    encrypted = encrypt(METADATA=True)
    session = SessionStore(owner=ada).open("hers", title="Lisbon", metadata={"note": "a word"})
    encrypted.destroy_keys(keys_of(ada))

    url = reverse("admin:agent_sessions_session_changelist")
    asked = {"action": "delete_selected", "_selected_action": [str(session.id)]}
    assert "hers" in root.post(url, asked).content.decode()
    root.post(url, {**asked, "post": "yes", "reason": "A restored backup"})

    assert not Session.objects.exists()


def test_the_api_deletes_a_session_without_its_key(encrypt, ada, client):
    encrypted = encrypt(METADATA=True)
    session = SessionStore(owner=ada).open("hers", title="Lisbon", metadata={"note": "a word"})
    encrypted.destroy_keys(keys_of(ada))
    client.force_login(ada)

    answer = client.delete(f"/api/sessions/{session.id}/")

    assert answer.status_code == 204, answer.content
    assert not Session.objects.exists()


@pytest.fixture
def lost(encrypt, ada):
    """A session of Ada's under legal hold, with a replaced message, whose key was destroyed."""
    encrypted = encrypt(METADATA=True)
    mine = SessionStore(owner=ada)
    session = mine.open("hers", title="Lisbon", metadata={"note": "a word"})
    agent = mine.agents.open(session)
    mine.append(agent, user("one"))
    legal_hold.hold(session.id, reason="case 1")
    mine.messages.update(agent, 0, user("two"))
    encrypted.destroy_keys(keys_of(ada))
    return session


def test_a_legal_hold_is_released_without_the_key(lost, ada):
    assert legal_hold.release(lost.id, reason="settled")
    assert legal_hold.hold(lost.id, reason="case 2")
    assert legal_hold.release(lost.id, reason="settled, too")
    assert SessionStore(owner=ada).delete("hers")

    assert not Session.objects.exists()


def test_the_actions_of_the_list_release_and_hold_without_the_key(lost, root):
    url = reverse("admin:agent_sessions_session_changelist")
    for name, held in (("release_selected", False), ("hold_selected", True)):
        asked = {"action": name, "_selected_action": [str(lost.id)]}
        assert "hers" in root.post(url, asked).content.decode()
        root.post(url, {**asked, "reason": "A restored backup"})
        assert Session.objects.filter(legal_hold=held).exists()


def test_the_page_of_all_matches_needs_no_key(lost, root):
    assert "hers" in root.get(reverse("admin:agent_sessions_session_all")).content.decode()


def test_files_of_other_owners_are_collected_without_the_key(blob_folder, encrypt, ada, bob):
    encrypted = encrypt()
    image = {"image": {"format": "png", "source": {"bytes": bytes(200_000)}}}
    for person in (ada, bob):
        mine = SessionStore(owner=person)
        agent = mine.agents.open(mine.open(person.username, title="Lisbon"), dialect="strands")
        mine.append(agent, {"role": "user", "content": [image]})
    BlobReference.objects.filter(session__owner=bob).delete()
    encrypted.destroy_keys(keys_of(ada))

    assert collect().rows == 1

    assert list(Blob.objects.values_list("session__session_id", flat=True)) == ["ada"]


def test_a_command_names_the_session_whose_key_is_missing(encrypt, ada):
    encrypted = encrypt()
    mine = SessionStore(owner=ada)
    hers = mine.open("hers")
    mine.append(mine.agents.open(hers), user("one"))
    encrypted.destroy_keys(keys_of(ada))

    out = StringIO()
    with pytest.raises(CommandError, match="1 finding left"):
        call_command("agent_sessions_check", stdout=out)
    assert f"key-destroyed: a session's data key was destroyed session {hers.id}" in out.getvalue()
