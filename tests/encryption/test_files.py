"""The files of binaries are encrypted in chunks, by the key of their owner."""

from __future__ import annotations

import os
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.http import HttpResponseRedirect
from django.test import RequestFactory

from django_agent_sessions.blobs import stream_blob
from django_agent_sessions.blobs.garbage_collection import collect
from django_agent_sessions.content import codec, sealed_files
from django_agent_sessions.exceptions import EncryptionKeyError
from django_agent_sessions.governance.erasure import erase
from django_agent_sessions.integrity import Check
from django_agent_sessions.models import Blob, DataKey, Session
from django_agent_sessions.serving import binaries, serve_media
from django_agent_sessions.store import SessionStore

pytestmark = pytest.mark.django_db(transaction=True)

WORD = b"plantedword"
CHUNK = sealed_files.CHUNK


def picture(size: int) -> dict[str, Any]:
    data = (b"\x89PNG\r\n\x1a\n" + WORD + os.urandom(64) + WORD * size)[:size]
    source = {"bytes": data}
    return {"role": "user", "content": [{"image": {"format": "png", "source": source}}]}


def data_of(message: Any) -> bytes:
    data: bytes = message["content"][0]["image"]["source"]["bytes"]
    return data


def talk(owner: Any = None, name: str = "s", *sizes: int) -> tuple[SessionStore, Any, list[Any]]:
    store = SessionStore() if owner is None else SessionStore(owner=owner)
    agent = store.agents.open(store.open(name), "main", dialect="strands")
    messages = [picture(size) for size in sizes or (10_000, 3 * CHUNK + 5)]
    store.append_many(agent, messages)
    return store, agent, messages


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def run(action: str) -> str:
    output = StringIO()
    call_command("agent_sessions_encrypt", action, stdout=output)
    return output.getvalue()


def test_files_are_encrypted_by_the_key_of_their_owner(blob_folder, encrypted, ada, bob):
    for person in (ada, bob):
        store, agent, messages = talk(person, f"of {person}")
        assert store.payloads(agent) == messages

    stored = files(blob_folder)
    assert len(stored) == 4
    assert not any(WORD in path.read_bytes() for path in stored)
    keys = {str(key): owner for key, owner in DataKey.objects.values_list("id", "owner")}
    for blob in Blob.objects.select_related("session"):
        assert keys[str(blob.data_key)] == str(blob.session.owner_id)
        path = blob_folder / blob.file
        assert path.stat().st_size == sealed_files.stored_size(blob.size)


@pytest.mark.parametrize("size", [8192, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 77])
def test_any_part_of_a_file_can_be_read(blob_folder, encrypted, size):
    _store, _agent, [message] = talk(None, "s", size)
    blob, data = Blob.objects.get(), data_of(message)
    assert b"".join(stream_blob(blob)) == data
    places = {0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, size - 1, size}
    for start in places:
        for stop in places:
            if start < stop <= size:
                part = b"".join(stream_blob(blob, start=start, stop=stop))
                assert part == data[start:stop], (start, stop)


def test_a_range_request_is_answered_and_no_storage_url_is_handed_out(
    blob_folder, encrypted, monkeypatch
):
    _store, _agent, [message] = talk(None, "s", 2 * CHUNK + 9)
    blob, data = Blob.objects.get(), data_of(message)
    monkeypatch.setattr(binaries, "signed_url", lambda *args: "https://bucket.example/x")
    request = RequestFactory().get("/", headers={"range": f"bytes={CHUNK - 2}-{CHUNK + 2}"})

    response: Any = serve_media(request, blob, "image/png", "name")

    assert response.status_code == 206
    assert b"".join(response.streaming_content) == data[CHUNK - 2 : CHUNK + 3]
    blob.data_key = None
    assert isinstance(serve_media(request, blob, "image/png", "name"), HttpResponseRedirect)


def test_plain_and_encrypted_files_live_together_and_the_command_changes_them(
    blob_folder, encrypt, settings
):
    store, agent, messages = talk()
    names = {path.name for path in files(blob_folder)}
    encrypted = encrypt()
    more = [picture(20_000)]
    store.append_many(agent, more)
    assert store.payloads(agent) == messages + more

    run("encrypt")
    assert run("encrypt").endswith(" 0 rewritten\n")
    assert names.isdisjoint(path.name for path in files(blob_folder))
    assert len(files(blob_folder)) == 3
    assert store.payloads(agent) == messages + more
    first = set(Blob.objects.values_list("data_key", flat=True))
    run("rotate")
    assert first.isdisjoint(Blob.objects.values_list("data_key", flat=True))
    encrypted.forget()
    assert store.payloads(agent) == messages + more

    encrypt(DECRYPT_ONLY=True)
    run("decrypt")
    assert set(Blob.objects.values_list("data_key", flat=True)) == {None}
    assert all(WORD in path.read_bytes() for path in files(blob_folder))
    assert store.payloads(agent) == messages + more


def test_a_lost_file_is_replaced_by_an_encrypted_one(blob_folder, encrypt):
    store, agent, messages = talk(None, "s", 10_000)
    encrypt()
    files(blob_folder)[0].unlink()
    store.append_many(agent, messages)
    assert store.payloads(agent) == messages * 2
    assert WORD not in files(blob_folder)[0].read_bytes()


def test_a_fork_has_files_of_its_own(blob_folder, encrypted, ada):
    store, _agent, messages = talk(ada)
    fork = store.sessions.fork(store.open("s"))
    Session.objects.get(session_id="s").delete()
    assert store.payloads(store.agents.open(fork, "main", dialect="strands")) == messages


@pytest.mark.skipif(not codec.is_plain(), reason="all tests are encrypted")
def test_checks_and_the_collector_find_nothing(blob_folder, encrypted, settings):
    talk()
    before = [path.read_bytes() for path in files(blob_folder)]
    found = collect(verify=True)
    assert (found.missing, found.damaged, found.failures) == ([], [], {})
    assert list(Check(files=True).run()) == []
    settings.AGENT_SESSIONS = {"BLOB_STORAGE": "blobs"}
    with pytest.raises(EncryptionKeyError):
        collect(older_than=timedelta(0))
    assert [path.read_bytes() for path in files(blob_folder)] == before


def test_an_erasure_keeps_what_others_have(blob_folder, encrypted, ada, bob):
    _store, _agent, messages = talk(ada)
    talk(ada, "hers")
    Session.objects.filter(session_id="s").update(owner=bob)

    receipt = erase(ada, reason="Request 31")

    assert (len(receipt.keys), list(receipt.keys_kept)) == (1, [])
    his = SessionStore(owner=bob)
    assert his.payloads(his.agents.open(his.open("s"), "main", dialect="strands")) == messages
    assert len(files(blob_folder)) == 2
