"""Content is encrypted by a key of its owner, wherever it is written."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from django.db import connection, transaction
from django.db.models import Model

from django_agent_sessions.content import codec
from django_agent_sessions.encryption import envelope
from django_agent_sessions.exceptions import (
    EncryptedSearchError,
    EncryptionKeyError,
    SessionNotFoundError,
)
from django_agent_sessions.governance import quotas
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import DataKey, Session, SessionMessage, StoredPart
from django_agent_sessions.models.fields import ExactJSONField
from django_agent_sessions.queries.search import find_messages, find_sessions
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.snapshots import SnapshotStorageStore
from django_agent_sessions.values.ids import new_id
from django_agent_sessions.values.records import AgentState

pytestmark = pytest.mark.django_db(transaction=True)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def stored(model: type[Model], name: str) -> list[Any]:
    field: Any = model._meta.get_field(name)
    quote = connection.ops.quote_name
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {quote(field.column)} FROM {quote(model._meta.db_table)}")
        return [value for (value,) in cursor.fetchall() if value is not None]


def key_of(row: SessionMessage) -> str:
    (text,) = stored_of(row)
    return envelope.key_of_text(text)


def stored_of(row: SessionMessage) -> list[str]:
    table = connection.ops.quote_name(SessionMessage._meta.db_table)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT message FROM {table} WHERE id = %s",
            [SessionMessage._meta.pk.get_db_prep_value(row.pk, connection)],
        )
        return [text for (text,) in cursor.fetchall()]


def test_every_content_column_is_encrypted_whoever_writes_it(encrypted, store):
    session = store.open("s")
    agent = store.agents.open(session, data=AgentState({"plan": "secret"}))
    store.append_many(agent, [user("a secret"), user("b secret"), user("c secret")])
    store.agents.update(agent, AgentState({"plan": "secret"}, {"kept": "secret"}))
    store.multi_agents.create(session, "graph", {"input": "secret"})
    store.messages.update(agent, 0, user("a new secret"))
    store.snapshots.take(agent)
    store.branches.rewind(agent, 0)
    store.append(agent, user("d secret"))
    store.sessions.fork(session)

    columns = 0
    for model in apps.get_app_config("agent_sessions").get_models():
        for field in model._meta.concrete_fields:
            if isinstance(field, ExactJSONField) and field.is_content:
                texts = stored(model, field.name)
                assert all(codec.ENVELOPE.match(text) for text in texts), field
                columns += bool(texts)
    assert columns >= 6
    assert set(stored(SessionMessage, "text")) == {""}
    assert store.payloads(agent) == [user("a new secret"), user("d secret")]


def test_plain_and_encrypted_messages_live_in_one_conversation(store, encrypt, settings):
    agent = store.agents.open(store.open("s"))
    long = user("a plain text that is long enough to be shared with its column")
    store.append_many(agent, [long, user("b")])
    encrypt()
    store.append(agent, user("c"))

    assert store.payloads(agent) == [long, user("b"), user("c")]

    settings.AGENT_SESSIONS = {
        "ENCRYPTION": {"KEYS": {"one": bytes(range(32))}, "DECRYPT_ONLY": True}
    }
    store.append(agent, user("d"))
    assert store.payloads(agent) == [long, user("b"), user("c"), user("d")]
    texts = stored(SessionMessage, "message")
    assert len([text for text in texts if codec.ENVELOPE.match(text)]) == 1


def test_without_the_setting_an_encrypted_conversation_is_refused_not_emptied(
    store, encrypt, settings
):
    agent = store.agents.open(store.open("s"))
    store.append(agent, user("plain"))
    encrypt()
    store.append(agent, user("secret"))
    settings.AGENT_SESSIONS = {}

    with pytest.raises(EncryptionKeyError, match="ENCRYPTION"):
        store.payloads(agent)


def test_each_owner_has_a_key_and_a_fork_is_encrypted_by_that_of_its_owner(encrypted, ada, bob):
    for person in (ada, bob):
        mine = SessionStore(owner=person)
        mine.append(mine.agents.open(mine.open(f"s-{person}")), user(f"{person} secret"))

    first, second = SessionMessage.objects.order_by("id")
    assert key_of(first) != key_of(second)
    assert set(DataKey.objects.values_list("owner", flat=True)) == {str(ada.pk), str(bob.pk)}


def test_a_destroyed_key_makes_one_owner_unreadable(encrypted, ada, bob):
    agents = {}
    for person in (ada, bob):
        mine = SessionStore(owner=person)
        agents[person] = mine, mine.agents.open(mine.open(f"s-{person}"))
        mine.append(agents[person][1], user("secret"))
    DataKey.objects.filter(owner=str(ada.pk)).delete()
    encrypted.forget()

    mine, agent = agents[ada]
    with pytest.raises(EncryptionKeyError, match="destroyed"):
        mine.payloads(agent)
    theirs, agent = agents[bob]
    assert theirs.payloads(agent) == [user("secret")]


def test_a_key_of_a_transaction_that_is_rolled_back_encrypts_nothing_later(encrypted, store):
    with transaction.atomic():
        agent = store.agents.open(store.open("s"), data=AgentState({"plan": "x"}))
        store.append(agent, user("a"))
        transaction.set_rollback(True)
    assert not DataKey.objects.exists()

    agent = store.agents.open(store.open("s"))
    store.append(agent, user("b"))
    encrypted.forget()
    assert store.payloads(agent) == [user("b")]


def test_a_warm_append_takes_no_statement_more(
    encrypted, store, django_assert_num_queries, settings
):
    agent = store.agents.open(store.open("s"))
    store.append(agent, user("a"), count=False)

    with django_assert_num_queries(0) as captured:
        encrypted.key_for(agent.session)
    assert not captured.captured_queries


def test_a_key_is_read_by_no_statement_once_its_transaction_has_committed(
    encrypted, store, django_assert_num_queries
):
    with transaction.atomic():
        session = store.open("s", title="A title")

    with django_assert_num_queries(0):
        encrypted.key_for(session.id)


def test_the_first_transaction_of_an_owner_reads_its_new_key_once(
    encrypted, store, django_assert_num_queries
):
    with transaction.atomic():
        session = store.open("s", title="A title")
        key = encrypted.key_for(session.id)
        with django_assert_num_queries(0):
            assert encrypted.key_for(session.id).id == key.id


def test_a_key_of_a_savepoint_that_is_rolled_back_encrypts_nothing_later(encrypted, store):
    with transaction.atomic():
        with transaction.atomic():
            store.open("s", title="A title")
            transaction.set_rollback(True)
        agent = store.agents.open(store.open("s", title="Another title"))
        store.append(agent, user("b"))

    encrypted.forget()
    assert store.payloads(agent) == [user("b")]
    assert store.open("s").title == "Another title"


def test_a_key_that_its_own_transaction_destroys_encrypts_nothing_later(encrypted, store):
    with transaction.atomic():
        session = store.open("s")
        first = encrypted.key_for(session.id)
        encrypted.destroy_keys([first.id])
        agent = store.agents.open(session)
        store.append(agent, user("b"))

    assert encrypted.key_for(session.id).id != first.id
    encrypted.forget()
    assert store.payloads(agent) == [user("b")]


def test_a_redaction_finds_encrypted_words_and_removes_them(encrypted, store, settings):
    session = store.open("s")
    agent = store.agents.open(session)
    store.append_many(agent, [user("the password is hunter2"), user("thanks")])

    redact(session.id, Find("hunter2"), actor="test", reason="a test")

    assert "hunter2" not in str(store.payloads(agent))
    assert "the password is [" in str(store.payloads(agent))


def test_the_parts_of_an_object_are_encrypted(encrypted, store):
    objects = SnapshotStorageStore(store)
    data = b"plantedsecret" * 100_000

    objects.write_object("notes", data)

    parts = [bytes(part) for part in StoredPart.objects.values_list("data", flat=True)]
    assert len(parts) == 2
    assert all(part.startswith(codec.BYTES_ENVELOPE) for part in parts)
    assert objects.read_object("notes") == data


@pytest.mark.parametrize("data", [codec.BYTES_ENVELOPE + b"1 mine", codec.PLAIN_BYTES + b"x"])
def test_plain_bytes_that_look_encrypted_stay_what_they_are(store, encrypt, data):
    objects = SnapshotStorageStore(store)
    objects.write_object("plain", data)
    assert objects.read_object("plain") == data

    encrypt()
    objects.write_object("sealed", data)
    assert objects.read_object("plain") == objects.read_object("sealed") == data


def test_an_unknown_owner_is_an_error_and_never_the_common_key(encrypted, store, ada):
    agent = store.agents.open(store.open("s"))
    store.append(agent, user("a"))
    before = DataKey.objects.count()

    with pytest.raises(SessionNotFoundError, match="nothing of it can be encrypted"):
        encrypted.seal(new_id(), "table.column", "secret", new_id())
    for holder in (None, "7", str(new_id())):
        with pytest.raises(TypeError):
            encrypted.seal(new_id(), "table.column", "secret", holder)
    with pytest.raises(TypeError, match="primary key"):
        encrypted.seal(new_id(), "table.column", "secret", codec.Owned(ada))
    assert DataKey.objects.count() == before


def test_an_owner_that_is_not_remembered_is_found(encrypted, ada):
    mine = SessionStore(owner=ada)
    agent = mine.agents.open(mine.open("s"))
    encrypted.forget()

    mine.append(agent, user("a"))

    assert set(DataKey.objects.values_list("owner", flat=True)) == {str(ada.pk)}


def test_words_of_encrypted_messages_are_not_searched_in_silence(encrypted, store):
    session = store.open("s", title="Lisbon")
    store.append(store.agents.open(session), user("needle"))
    everything = Session.objects.all()

    with pytest.raises(EncryptedSearchError, match="cannot be searched"):
        find_sessions("needle", sessions=everything, content=True)
    with pytest.raises(EncryptedSearchError):
        find_messages(session.id, "needle")
    with pytest.raises(EncryptedSearchError, match="Titles and messages"):
        find_sessions("lisb", sessions=everything, content=True)
    found = find_sessions("s", sessions=everything, content=True)
    assert set(found.sessions) == {session.id}
    assert found.encrypted


def test_a_quota_counts_the_bytes_that_are_stored(encrypted, store):
    session = store.open("s")
    agent = store.agents.open(session)
    store.append_many(agent, [user("The first secret."), user("The second one.")])

    size = quotas.measure(session.id, "default").messages

    assert size == sum(len(text) for text in stored(SessionMessage, "message"))
