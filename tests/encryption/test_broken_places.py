"""What is encrypted besides messages, and broken: a named error, and no byte changes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.db.models import Model

from django_agent_sessions.content import codec, sealed_files
from django_agent_sessions.exceptions import (
    BlobNotFoundError,
    DecryptionError,
    EncryptionError,
    EncryptionKeyError,
)
from django_agent_sessions.models import (
    Blob,
    DataKey,
    MessageFeedback,
    Session,
    SessionAgent,
    SessionMessage,
    Snapshot,
    StoredPart,
)
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.snapshots import SnapshotStorageStore
from django_agent_sessions.values.records import AgentState
from tests.encryption.test_broken_keys import flip
from tests.encryption.test_files import files, picture

pytestmark = pytest.mark.django_db(transaction=True)

SIZE = 2 * sealed_files.CHUNK + 100


def execute(sql: str, *parameters: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall()) if cursor.description else []


def all_bytes(folder: Path) -> list[Any]:
    tables = [model._meta.db_table for model in apps.get_app_config("agent_sessions").get_models()]
    rows = [sorted(map(str, execute(f"SELECT * FROM {table}"))) for table in tables]
    return [rows, [(path.name, path.read_bytes()) for path in files(folder)]]


def quoted(column: str) -> str:
    return connection.ops.quote_name(column)


def stored(model: type[Model], column: str) -> list[Any]:
    cut = f"CAST({column} AS text)" if column == "metadata" else quoted(column)
    if connection.vendor == "mysql":
        cut = quoted(column)
    table = model._meta.db_table
    return [row[0] for row in execute(f"SELECT {cut} FROM {table} ORDER BY id")]


def write(model: type[Model], column: str, values: list[Any]) -> None:
    table = model._meta.db_table
    keys = [key for (key,) in execute(f"SELECT id FROM {table} ORDER BY id")]
    for key, value in zip(keys, values, strict=True):
        driver: Any = connection
        adapted = driver.Database.Binary(value) if isinstance(value, bytes) else value
        execute(f"UPDATE {table} SET {quoted(column)} = %s WHERE id = %s", adapted, key)


@pytest.fixture
def talks(blob_folder, encrypt, ada):
    """Two of everything that is encrypted."""
    encrypt(METADATA=True)
    mine = SessionStore(owner=ada)
    for name in ("one", "two"):
        session = mine.open(name, title=f"title {name}", metadata={"note": name})
        agent = mine.agents.open(session, "main", dialect="strands", data=AgentState({"n": name}))
        mine.append_many(agent, [picture(SIZE)])
        mine.snapshots.take(agent)
        (message,) = mine.messages.list(agent)
        mine.feedback.save(message.id, 1, comment=f"comment {name}")
        SnapshotStorageStore(mine).write_object(name, b"object " + os.urandom(100))
    return mine


def change_text(edit: Callable[[str], str]) -> Callable[[list[str]], list[str]]:
    def edited(text: str) -> str:
        # Metadata is a JSON string.
        return f'"{edit(text[1:-1])}"' if text.startswith('"') else edit(text)

    return lambda texts: list(map(edited, texts))


TEXTS: dict[str, tuple[Callable[[list[str]], list[str]], type[EncryptionError]]] = {
    "a changed character": (change_text(lambda t: flip(t, -8)), DecryptionError),
    "truncated": (change_text(lambda t: t[:-4]), DecryptionError),
    "truncated in the key id": (change_text(lambda t: t[:20]), DecryptionError),
    "a newer version": (change_text(lambda t: "enc2" + t[4:]), DecryptionError),
    "an unknown key": (change_text(lambda t: "enc1:" + "0" * 32 + t[37:]), EncryptionKeyError),
    "swapped rows": (lambda texts: texts[::-1], DecryptionError),
}
COLUMNS: dict[str, tuple[type[Model], str, Callable[[SessionStore], object]]] = {
    "a state": (
        SessionAgent,
        "state",
        lambda store: [store.agents.list(each) for each in store.sessions.list()],
    ),
    "a title": (Session, "title", lambda store: store.sessions.list()),
    "metadata": (Session, "metadata", lambda store: store.open("one").metadata),
    "a comment": (MessageFeedback, "comment", lambda store: store.feedback.list()),
    "a snapshot": (Snapshot, "document", lambda store: list(Snapshot.objects.all())),
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("place", COLUMNS)
def test_a_broken_text_is_refused(talks, blob_folder, place, name):
    (model, column, read), (edit, error) = COLUMNS[place], TEXTS[name]
    write(model, column, edit(stored(model, column)))
    before = all_bytes(blob_folder)

    with pytest.raises(error):
        read(talks)

    assert all_bytes(blob_folder) == before


def test_a_title_in_the_place_of_metadata_is_refused(talks, blob_folder):
    write(Session, "metadata", [f'"{text}"' for text in stored(Session, "title")])
    before = all_bytes(blob_folder)
    with pytest.raises(DecryptionError):
        talks.open("one")
    assert all_bytes(blob_folder) == before


BYTES: dict[str, tuple[Callable[[bytes], bytes], type[EncryptionError]]] = {
    "a changed byte": (lambda b: b[:-3] + bytes([b[-3] ^ 1]) + b[-2:], DecryptionError),
    "truncated": (lambda b: b[:-1], DecryptionError),
    "only the head": (lambda b: b[:10], DecryptionError),
    "a newer version": (lambda b: b[:4] + b"2" + b[5:], DecryptionError),
    "an unknown key": (lambda b: b[:5] + bytes(16) + b[21:], EncryptionKeyError),
}


@pytest.mark.parametrize("name", BYTES)
def test_a_broken_part_of_an_object_is_refused(talks, blob_folder, name):
    edit, error = BYTES[name]
    write(StoredPart, "data", [edit(bytes(data)) for data in stored(StoredPart, "data")])
    before = all_bytes(blob_folder)
    with pytest.raises(error):
        SnapshotStorageStore(talks).read_object("one")
    assert all_bytes(blob_folder) == before


def middle(data: bytes, new: bytes) -> bytes:
    """Replaces bytes of the second chunk."""
    place = sealed_files.HEADER + sealed_files.CHUNK + sealed_files.OVERHEAD + 20
    return data[:place] + new + data[place + len(new) :]


def swapped_chunks(data: bytes) -> bytes:
    head, length = sealed_files.HEADER, sealed_files.CHUNK + sealed_files.OVERHEAD
    first, second = data[head : head + length], data[head + length : head + 2 * length]
    return data[:head] + second + first + data[head + 2 * length :]


FILES: dict[str, Callable[[bytes], bytes]] = {
    "a changed byte": lambda data: middle(data, bytes([data[-1] ^ 1]) * 3),
    "a changed header": lambda data: data[:10] + bytes([data[10] ^ 1]) + data[11:],
    "a newer version": lambda data: data[:5] + b"2" + data[6:],
    "truncated": lambda data: data[:-1],
    "without the last chunk": lambda data: data[: -(100 + sealed_files.OVERHEAD)],
    "swapped chunks": swapped_chunks,
    "longer": lambda data: data + b"x",
    "empty": lambda data: b"",
    "plain": lambda data: bytes(len(data)),
}


def read_files(store: SessionStore) -> None:
    for session in store.sessions.list():
        store.payloads(store.agents.open(session, "main", dialect="strands"))


@pytest.mark.parametrize("name", FILES)
def test_a_broken_file_is_refused(talks, blob_folder, name):
    for path in files(blob_folder):
        path.write_bytes(FILES[name](path.read_bytes()))
    before = all_bytes(blob_folder)
    with pytest.raises(DecryptionError) as refusal:
        read_files(talks)
    # As any damaged file.
    assert isinstance(refusal.value, BlobNotFoundError)
    assert all_bytes(blob_folder) == before


def swap_files() -> None:
    first, second = Blob.objects.order_by("pk")
    Blob.objects.filter(pk=first.pk).update(file=second.file)
    Blob.objects.filter(pk=second.pk).update(file=first.file)


def other_key() -> None:
    installed: Any = codec.installed()
    Blob.objects.update(data_key=installed.keys.current("").id)


ROWS: dict[str, tuple[Callable[[], object], type[EncryptionError]]] = {
    "two files are swapped": (swap_files, DecryptionError),
    "the key of another owner": (other_key, DecryptionError),
    "an unknown key": (
        lambda: Blob.objects.update(data_key="0" * 32),
        EncryptionKeyError,
    ),
    "the key was destroyed": (
        lambda: DataKey.objects.all().delete(),
        EncryptionKeyError,
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_file_with_another_row_or_key_is_refused(talks, blob_folder, name):
    break_it, error = ROWS[name]
    break_it()
    installed: Any = codec.installed()
    installed.forget()
    before = all_bytes(blob_folder)
    with pytest.raises(error):
        read_files(talks)
    assert all_bytes(blob_folder) == before
    assert SessionMessage.objects.count() == 2
