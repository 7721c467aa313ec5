"""Content is sealed for its row and column, and no query reads or writes it past the codec."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.db.models import Model

from django_agent_sessions.content import codec
from django_agent_sessions.exceptions import PayloadError
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.interchange import export_markdown, export_sessions
from django_agent_sessions.models import Session, SessionAgent, SessionMessage, StoredPart
from django_agent_sessions.models.fields import CorruptPayload, ExactJSONField
from django_agent_sessions.store.snapshots import SnapshotStorageStore
from django_agent_sessions.values.records import AgentState
from tests.sealed import PREFIX, ToyCodec

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def sealed() -> Iterator[None]:
    previous = codec.install(ToyCodec())
    yield
    codec.install(previous)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def stored(model: type[Model], name: str) -> list[str]:
    """The texts of a column, as they are in the table."""
    field: Any = model._meta.get_field(name)
    quote = connection.ops.quote_name
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {quote(field.column)} FROM {quote(model._meta.db_table)}")
        return [text for (text,) in cursor.fetchall() if text is not None]


def test_every_content_column_is_sealed_whoever_writes_it(store):
    session = store.open("s")
    agent = store.agents.open(session, data=AgentState({"plan": "secret"}))
    store.append_many(agent, [user("a secret"), user("b secret"), user("c secret")])
    store.agents.update(agent, AgentState({"plan": "secret"}, {"kept": "secret"}))
    store.multi_agents.create(session, "graph", {"input": "secret"})
    store.multi_agents.update(session, "graph", {"input": "another secret"})
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
                assert all(text.startswith(PREFIX) for text in texts), field
                columns += bool(texts)
    assert columns >= 6
    assert store.payloads(agent) == [user("a new secret"), user("d secret")]


def test_a_text_that_was_moved_is_not_read(store, caplog):
    agent = store.agents.open(store.open("s"))
    other = store.agents.open(store.open("other"))
    store.append_many(agent, [user("mine"), user("mine too")])
    store.append(other, user("theirs"))
    keys = (SessionMessage.objects.get(agent=other.id).pk, agent.id)
    with connection.cursor() as cursor:
        table = connection.ops.quote_name(SessionMessage._meta.db_table)
        cursor.execute(
            f"UPDATE {table} SET message = (SELECT o.message FROM (SELECT * FROM {table}) o "
            "WHERE o.id = %s) WHERE agent_id = %s AND message_id = 0",
            [SessionMessage._meta.pk.get_db_prep_value(key, connection) for key in keys],
        )

    assert store.payloads(agent) == [user("mine too")]
    assert "is corrupt" in caplog.text
    moved = SessionMessage.objects.get(agent=agent.id, message_id=0).message
    assert isinstance(moved, CorruptPayload)
    assert "theirs" not in moved.text


def test_a_write_that_names_no_row_is_refused(agent):
    with pytest.raises(TypeError, match="sealed"):
        SessionAgent.objects.filter(pk=agent.id).update(state={"plan": "open"})

    assert SessionAgent.objects.get(pk=agent.id).state == {}


def test_what_was_redacted_is_gone_and_what_stays_is_exported(store):
    session = store.open("s")
    agent = store.agents.open(session)
    store.append_many(agent, [user("the password is hunter2"), user("thanks")])

    redact(session.id, Find("hunter2"), actor="test", reason="a test")

    row = Session.objects.get(pk=session.id)
    exported = "".join([*export_sessions([row]), *export_markdown(row)])
    assert "the password is [" in exported
    assert "thanks" in exported
    assert "hunter2" not in exported


def test_the_bytes_of_an_object_are_sealed_in_each_part(store):
    objects = SnapshotStorageStore(store)
    data = b"plantedsecret" * 100_000

    objects.write_object("notes", data)

    parts = [bytes(part) for part in StoredPart.objects.values_list("data", flat=True)]
    assert len(parts) == 2
    assert all(part.startswith(PREFIX.encode()) for part in parts)
    assert objects.read_object("notes") == data
    first, second = StoredPart.objects.order_by("number")
    StoredPart.objects.filter(pk=first.pk).update(data=second.data)
    with pytest.raises(PayloadError, match="cannot be opened"):
        objects.read_object("notes")
