"""What is lost is stored again when it is said again, and stands in nobody's way."""

from __future__ import annotations

import pytest

from django_agent_sessions.blobs import blob_files
from django_agent_sessions.exceptions import BlobError
from django_agent_sessions.governance.legal_hold import hold
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import Blob, BlobReference, HeldCopy, SessionMessage
from django_agent_sessions.values.records import NewMessage

from .messages import image, picture, user

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = "the-secret-word"


@pytest.fixture
def strands(session, store, blob_folder):
    return store.agents.open(session, "main", dialect="strands")


@pytest.mark.parametrize("damage", ["missing", "cut off"])
def test_what_was_lost_is_stored_again_when_it_is_said_again(strands, store, stored, damage):
    message = user(image(picture(20_000)))
    store.append(strands, message)
    (file,) = stored()
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(b"half")
    store.append(strands, message)
    # The earlier message has its picture again, too.
    assert store.payloads(strands) == [message, message]
    assert len(stored()) == 1


def test_nothing_is_popped_that_cannot_be_read(strands, store, stored):
    message = user(image(picture(20_000)))
    store.append(strands, message)
    (file,) = stored()
    data = file.read_bytes()
    file.unlink()
    with pytest.raises(BlobError):
        store.pop(strands)
    file.write_bytes(data)
    assert store.pop(strands) == message
    assert stored() == []


def test_a_picture_that_was_said_often_is_read_once_by_a_redaction(
    strands, store, session, monkeypatch
):
    data = picture(20_000)
    for _ in range(10):
        store.append(strands, user(image(data)))
    store.append(strands, user(image(picture(20_000)), text=SECRET))
    reads: list[int] = []
    read = blob_files.read

    def counted(blobs):
        blobs = list(blobs)
        reads.append(len(blobs))
        return read(blobs)

    monkeypatch.setattr(blob_files, "read", counted)
    assert redact(session.id, Find(SECRET), reason="test").messages == 1
    assert sum(reads) == 2


def test_lowered_limits_do_not_stand_in_the_way_of_a_redaction(strands, store, session, settings):
    store.append(strands, user(image(picture(20_000)), image(picture(20_000)), text=SECRET))
    settings.AGENT_SESSIONS = {**settings.AGENT_SESSIONS, "MAX_BLOBS": 1, "MAX_BLOB_BYTES": 10_000}
    assert redact(session.id, Find(SECRET), reason="test").messages == 1
    assert SECRET not in str(store.payloads(strands))


def test_a_retry_in_a_held_session_keeps_what_was_said_first(strands, store, stored, session):
    first = NewMessage(user(image(picture(20_000))))
    store.append(strands, first)
    hold(session.id, reason="court")
    other = NewMessage(user(text="something else"), id=first.id)
    store.append(strands, other, again=True)
    assert store.payloads(strands) == [other.payload]
    # With the bytes, whose file nothing refers to any more.
    assert HeldCopy.objects.get().content == {"message": first.payload}
    assert stored() == []


def test_a_binary_without_a_row_does_not_stand_in_the_way_of_a_redaction(strands, store, session):
    store.append(strands, user(image(picture(20_000)), text=SECRET))
    BlobReference.objects.all().delete()
    Blob.objects.all().delete()
    assert redact(session.id, Find(SECRET), reason="test").messages == 1
    assert SECRET not in str(SessionMessage.objects.get().message)
