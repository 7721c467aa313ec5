"""Bytes under keys: whose they are, how they are listed, and when a session goes with them."""

from __future__ import annotations

import pytest

from django_agent_sessions.exceptions import InvalidIdError, LegalHoldError
from django_agent_sessions.governance.legal_hold import hold, release
from django_agent_sessions.models import Session, StoredObject, StoredPart
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.snapshots import PART_SIZE, SnapshotStorageStore
from django_agent_sessions.values.owners import EVERYBODY

pytestmark = pytest.mark.django_db


@pytest.fixture
def store() -> SnapshotStorageStore:
    return SnapshotStorageStore(SessionStore())


@pytest.mark.parametrize("size", [0, 1, PART_SIZE, PART_SIZE + 1])
def test_they_come_back_in_one_piece(store, size):
    data = (b"0123456789" * (size // 10 + 1))[:size]

    store.write_object("a/b", data)

    assert store.read_object("a/b") == data
    assert StoredObject.objects.get().size == size
    assert StoredPart.objects.count() == max(1, -(-size // PART_SIZE))


def test_what_is_written_again_takes_the_place_of_what_was_there(store):
    store.write_object("a", b"x" * (2 * PART_SIZE))
    store.write_object("a", b"y")

    assert store.read_object("a") == b"y"
    assert StoredPart.objects.count() == 1
    assert StoredObject.objects.get().revision == 1
    assert store.delete_object("a")
    assert not store.delete_object("a")
    assert store.read_object("a") is None
    assert not StoredPart.objects.exists()


def test_owners_and_namespaces_are_apart(ada, bob):
    stores = [
        SnapshotStorageStore(SessionStore()),
        SnapshotStorageStore(SessionStore(owner=ada)),
        SnapshotStorageStore(SessionStore(owner=bob)),
        SnapshotStorageStore(SessionStore(owner=bob, namespace="n")),
    ]
    for number, store in enumerate(stores):
        store.write_object("key", str(number).encode())

    assert [store.read_object("key") for store in stores] == [b"0", b"1", b"2", b"3"]
    assert [store.object_keys() for store in stores] == [["key"]] * 4
    stores[1].delete_object("key")
    assert [store.read_object("key") for store in stores] == [b"0", None, b"2", b"3"]


def test_an_object_of_a_session_is_its_owners_whoever_writes(ada, store):
    session = SessionStore(owner=ada).open("s")
    everybodys = SnapshotStorageStore(SessionStore(owner=EVERYBODY))

    everybodys.write_object("key", b"x", session=session)

    assert SnapshotStorageStore(SessionStore(owner=ada)).read_object("key", session=session) == b"x"
    assert StoredObject.objects.get().owner == ada
    assert everybodys.object_keys() == ["key"]
    assert store.object_keys() == []
    session_row = Session.objects.get()
    session_row.delete()
    assert not StoredObject.objects.exists()


def test_keys_are_listed_by_how_they_begin(store):
    for key in ("a", "a/b", "a/b%", "A/b", "ä", "\U0001f600"):
        store.write_object(key, b"")

    assert sorted(store.object_keys("a")) == ["a", "a/b", "a/b%"]
    assert store.object_keys("a/b%") == ["a/b%"]
    assert store.object_keys("\U0001f600") == ["\U0001f600"]


@pytest.mark.parametrize("key", ["", "x" * 701, "a\0b", "a\ud800"])
def test_keys_that_cannot_be(store, key):
    with pytest.raises(InvalidIdError):
        store.write_object(key, b"")


def test_a_session_goes_with_its_last_object_unless_it_is_held_or_used(store):
    session = store.store.open("s")
    store.write_object("key", b"x", session=session)
    assert not store.delete_session_if_empty(session.id)
    hold(session.id, reason="court")
    with pytest.raises(LegalHoldError):
        store.delete_object("key", session=session)
    release(session.id, reason="over")
    store.delete_object("key", session=session)
    store.store.agents.open(session, dialect="openai")
    assert not store.delete_session_if_empty(session.id)

    other = store.store.open("other")
    assert store.delete_session_if_empty(other.id)
    assert not store.delete_session_if_empty(other.id)
    assert [row.session_id for row in Session.objects.all()] == ["s"]


def test_what_a_held_session_keeps_is_not_overwritten(store):
    session = store.store.open("s")
    store.write_object("key", b"x", session=session)
    hold(session.id, reason="a lawsuit", actor="legal")

    store.write_object("key", b"x", session=session)
    with pytest.raises(LegalHoldError):
        store.write_object("key", b"y", session=session)
    store.write_object("another", b"y", session=session)
    assert store.read_object("key", session=session) == b"x"
