"""Cleaning up while others write, and where there is much of it."""

from __future__ import annotations

import pytest

from django_agent_sessions.blobs import file_storage
from django_agent_sessions.blobs.garbage_collection import collect
from django_agent_sessions.models import Blob, BlobReference
from django_agent_sessions.values.ids import new_id
from tests.s3 import bucket_fixture  # noqa: F401 - a fixture

from .deeds import NONE, expect_clean, message, picture

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def strands(session, store, blob_folder):
    return store.agents.open(session, "main", dialect="strands")


def after_each_listing(monkeypatch, do) -> None:
    """Lets somebody else do something between a listing and what is made of it."""
    list_folder = file_storage.list_folder

    def listed(storage, name):
        found = list_folder(storage, name)
        do()
        return found

    monkeypatch.setattr(file_storage, "list_folder", listed)


def test_what_is_written_after_the_listing_is_not_missing(store, strands, blob_folder, monkeypatch):
    pictures = iter([picture("1"), picture("2")])
    store.append(strands, message("first", picture("0")))
    after_each_listing(monkeypatch, lambda: store.append(strands, message("m", next(pictures))))

    assert collect(older_than=NONE).missing == []

    monkeypatch.undo()
    expect_clean(blob_folder)


def test_what_is_deleted_after_the_listing_stops_nothing(
    store, session, settings, bucket, monkeypatch
):
    backend = "storages.backends.s3.S3Storage"
    settings.STORAGES = {"blobs": {"BACKEND": backend, "OPTIONS": bucket.options}}
    settings.AGENT_SESSIONS = {"BLOB_STORAGE": "blobs"}
    agent = store.agents.open(session, "main", dialect="strands")
    store.append_many(agent, [message("first", picture("0")), message("second", picture("1"))])
    after_each_listing(monkeypatch, lambda: store.pop(agent))

    found = collect(older_than=NONE)

    assert (found.files, found.missing) == ([], [])
    assert bucket.found() == []


def test_a_conversation_with_very_many_binaries_is_cleared(store, strands, session, stored):
    store.append(strands, message("first", picture("0")))
    row = Blob.objects.get()
    many = [
        Blob(session_id=session.id, sha256=f"{n:064}", size=1, storage=row.storage,
             file=f"agent_sessions/{session.id}/{n}") for n in range(1100)
    ]  # fmt: skip
    Blob.objects.bulk_create(many)
    BlobReference.objects.bulk_create(
        BlobReference(session_id=session.id, message=new_id(), blob=blob) for blob in many
    )

    store.clear(strands)

    assert not Blob.objects.exists()
    assert not BlobReference.objects.exists()
    assert stored() == []
