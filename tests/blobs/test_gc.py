"""The collector finds what a crash left, and touches nothing else."""

from __future__ import annotations

import io
import os
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection, connections

from django_agent_sessions.blobs.garbage_collection import collect
from django_agent_sessions.models import Blob, BlobReference, SessionMessage
from django_agent_sessions.store import SessionStore

from . import faulty

NOW = timedelta(0)
NO_ENGINE = "django.db.backends.dummy"
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def pictures(session, store, blob_folder):
    """Two messages with a picture each."""
    agent = store.agents.open(session, "main", dialect="strands")
    for _ in range(2):
        source = {"bytes": b"\x89PNG\r\n\x1a\n" + os.urandom(10_000)}
        image = {"image": {"format": "png", "source": source}}
        store.append(agent, {"role": "user", "content": [image]})
    return agent


@pytest.fixture
def archive(tmp_path):
    """Another database."""
    name = "archive"
    given = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "archive.sqlite3")}
    connections.databases[name] = {**connections.databases["default"], "OPTIONS": {}, **given}
    # By itself, a test connects to its own database only.
    connections[name].connect()
    try:
        call_command("migrate", "agent_sessions", database=name, verbosity=0)
        yield name
    finally:
        connections[name].close()
        del connections[name]
        del connections.databases[name]


def refuse() -> None:
    raise OperationalError("away")


def gc(*options: str) -> str:
    out = io.StringIO()
    call_command("agent_sessions_gc", *options, stdout=out)
    return out.getvalue()


def test_a_clean_store_stays_as_it_is(pictures, store, stored):
    before = store.payloads(pictures)
    assert gc("--older-than", "0").startswith("0 orphaned files")
    assert store.payloads(pictures) == before
    assert len(stored()) == 2


def test_a_program_gives_the_age_in_hours_too(pictures, stored):
    (stored()[0].parent / ("0" * 64 + "-1")).write_bytes(b"12345")
    for hours in (24, 0):
        out = io.StringIO()
        call_command("agent_sessions_gc", older_than=hours, stdout=out)
        assert out.getvalue().startswith(f"{int(not hours)} orphaned files")


def test_orphans_are_deleted_when_they_are_old_and_only_ours(
    pictures, stored, blob_folder, session
):
    orphan = stored()[0].parent / ("0" * 64 + "-1")
    orphan.write_bytes(b"12345")
    lost = blob_folder / "agent_sessions" / "00000000-0000-0000-0000-000000000000" / "x"
    lost.parent.mkdir()
    lost.write_bytes(b"1")
    foreign = blob_folder / "agent_sessions" / "not-ours" / "x"
    foreign.parent.mkdir()
    foreign.write_bytes(b"1")
    assert "0 orphaned files" in gc()
    assert "2 newer files kept" in gc()
    told = gc("--dry-run", "--older-than", "0")
    assert f"orphan agent_sessions/{session.id}/{orphan.name}" in told
    assert "1 orphaned files (5 bytes)" in told
    assert orphan.exists()
    # They may be those of another project.
    assert "1 files of 1 unknown sessions kept" in gc("--older-than", "0")
    assert not orphan.exists()
    assert lost.exists()
    assert "kept: the sessions" not in gc("--older-than", "0", "--unknown-sessions")
    assert not lost.exists()
    assert foreign.exists()
    assert len(stored()) == 3


def test_binaries_of_messages_that_somebody_deleted_by_hand_go(pictures, stored):
    SessionMessage.objects.filter(message_id=0).delete()
    assert len(stored()) == 2
    assert collect(older_than=NOW, dry_run=True).rows == 1
    assert len(stored()) == 2
    assert collect(older_than=NOW).rows == 1
    assert len(stored()) == 1
    assert Blob.objects.count() == 1


@pytest.mark.parametrize("whole_folder", [False, True])
def test_missing_files_are_told_and_end_in_an_error(pictures, stored, whole_folder):
    files = stored()
    for file in files if whole_folder else files[:1]:
        file.unlink()
    if whole_folder:
        files[0].parent.rmdir()
    found = collect(older_than=NOW)
    assert len(found.missing) == (2 if whole_folder else 1)
    assert Blob.objects.count() == 2
    with pytest.raises(CommandError, match="restore the storage"):
        gc()


def test_what_was_changed_while_there_was_no_setting_is_found(
    pictures, store, stored, settings, session
):
    before = settings.AGENT_SESSIONS
    settings.AGENT_SESSIONS = {}
    store.messages.update(pictures, 0, {"role": "user", "content": [{"text": "changed"}]})
    settings.AGENT_SESSIONS = before
    row = SessionMessage.objects.get(message_id=1)
    # Somebody may mend what is broken now.
    with connection.cursor() as cursor:
        table = SessionMessage._meta.db_table
        key = SessionMessage._meta.pk.get_db_prep_value(row.pk, connection)
        cursor.execute(f"UPDATE {table} SET message = %s WHERE id = %s", ["{broken", key])

    assert collect(older_than=NOW, dry_run=True).rows == 1
    assert len(stored()) == 2
    assert collect(older_than=NOW).rows == 1
    assert len(stored()) == 1
    assert collect(older_than=NOW).rows == 0


def test_damage_is_told_with_the_messages_it_is_in(pictures, stored):
    shorter, changed = stored()
    shorter.write_bytes(b"short")
    data = changed.read_bytes()
    changed.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    blobs = {blob.file.rpartition("/")[2]: blob for blob in Blob.objects.all()}

    found = [collect(verify=verify) for verify in (False, True)]

    assert [len(each.damaged) for each in found] == [1, 2]
    assert found[0].damaged == [blobs[shorter.name].pk]
    out = io.StringIO()
    with pytest.raises(CommandError, match="0 binaries have no file, and 1 have a damaged one"):
        call_command("agent_sessions_gc", stdout=out)
    user = BlobReference.objects.get(blob=blobs[shorter.name]).message
    assert f"damaged file of binary {blobs[shorter.name].pk}; messages with it: {user}" in (
        out.getvalue()
    )


def test_a_storage_that_is_away_is_told_and_the_others_are_cleaned_up(
    pictures, stored, settings, blob_folder
):
    orphan = stored()[0].parent / "orphan"
    orphan.write_bytes(b"1")
    Blob.objects.filter(file__endswith=stored()[0].name).update(storage="a gone one")
    broken = {"BACKEND": "tests.blobs.faulty.FaultyStorage", "OPTIONS": {"location": "/dev/null"}}
    settings.STORAGES = {**settings.STORAGES, "a broken one": broken}
    Blob.objects.filter(file__endswith=stored()[1].name).update(storage="a broken one")
    faulty.begin(0)
    with pytest.raises(CommandError) as told:
        gc("--older-than", "0")
    faulty.begin()
    assert "storage 'a broken one' could not be cleaned up: StorageError" in str(told.value)
    assert "STORAGES has no alias 'a gone one'" in str(told.value)
    assert not orphan.exists()


def test_another_database_that_uses_the_same_storage_keeps_its_files(
    pictures, store, stored, archive
):
    there = SessionStore(using=archive)
    agent = there.agents.open(there.open("theirs"), "main", dialect="strands")
    there.append_many(agent, store.payloads(pictures))
    assert len(stored()) == 4

    assert collect(older_than=NOW, unknown_sessions=True).files == []
    assert collect(older_than=NOW, unknown_sessions=True, using=archive).files == []

    assert there.payloads(agent) == store.payloads(pictures)


def test_a_database_that_does_not_answer_may_know_a_session(
    pictures, store, stored, archive, blob_folder, monkeypatch
):
    lost = blob_folder / "agent_sessions" / "00000000-0000-0000-0000-000000000000" / "x"
    lost.parent.mkdir()
    lost.write_bytes(b"1")
    connections[archive].close()
    connections.databases["none"] = {**connections.databases[archive], "ENGINE": NO_ENGINE}
    # As a server that is away does.
    monkeypatch.setattr(connections[archive], "ensure_connection", refuse)
    try:
        told = gc("--older-than", "0", "--unknown-sessions")
    finally:
        del connections["none"], connections.databases["none"]
    assert "database 'archive' is unavailable" in told
    assert "'none'" not in told
    assert "1 files of 1 unknown sessions kept" in told
    assert lost.exists()


def test_no_empty_folder_of_a_session_stays(pictures, store, blob_folder, session):
    folder = blob_folder / "agent_sessions"
    left = folder / "00000000-0000-0000-0000-000000000000"
    left.mkdir()
    assert gc("--dry-run").startswith("0 ")
    assert left.exists()
    gc()
    assert list(folder.iterdir()) == [folder / str(session.id)]
    store.delete(session.session_id)
    assert list(folder.iterdir()) == []


def test_a_wrong_age_is_refused():
    with pytest.raises(CommandError, match="use a number of hours"):
        gc("--older-than", "yesterday")
