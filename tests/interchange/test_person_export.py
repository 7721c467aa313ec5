"""The export of everything about a person."""

from __future__ import annotations

import io
import json
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command

from django_agent_sessions.exceptions import ConfigurationError, ReasonRequiredError
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.interchange.person_export import export_person
from django_agent_sessions.interchange.zip_stream import stream_zip
from django_agent_sessions.models import AuditEvent, Blob, Session, SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.owners import EVERYBODY, NOBODY
from tests.blobs.conftest import blob_folder  # noqa: F401 - a fixture
from tests.governance.person import BINARY, OTHERS, REASON, WORD, fill, fill_others

pytestmark = pytest.mark.django_db(transaction=True)

PARTS = ("title", "metadata", "text0", "text1", "text2", "picture", "state", "manager", "sdk")


@pytest.fixture
def person(blob_folder, bob):  # noqa: F811 - the fixture
    """Lovelace with two sessions, two forks that are Bob's, and everything else."""
    lovelace = get_user_model().objects.create_user("lovelace-1815")
    for number in range(2):
        _session, fork = fill(lovelace, bob, number)
    fill_others(lovelace, bob, fork)
    return lovelace


def exported(owner) -> zipfile.ZipFile:
    export = export_person(owner, reason="Request 32", actor="desk")
    return zipfile.ZipFile(io.BytesIO(b"".join(export)))


def everything(archive: zipfile.ZipFile) -> bytes:
    return b"\n".join(name.encode() + b"\n" + archive.read(name) for name in archive.namelist())


def test_the_archive_has_every_word_of_the_person_and_none_of_another(person):
    archive = exported(person)
    found = everything(archive)
    words = [f"{WORD}-{number}-{part}" for number in range(2) for part in (*PARTS, "id", "graph")]
    words += [f"{WORD}-{number}-branch" for number in range(2)]
    words += [f"{WORD}-{part}" for part in ("comment", "key", "object")]
    assert [word for word in words if word.encode() not in found] == []
    assert REASON.encode() in found
    assert BINARY + b"0" in found
    assert BINARY + b"1" in found
    assert OTHERS.encode() not in found
    assert b"bob" not in found
    assert archive.testzip() is None


def test_feedback_of_others_on_the_persons_messages_is_not_there(person, bob):
    message = SessionMessage.objects.filter(session__owner=person).latest("pk")
    store = SessionStore(owner=EVERYBODY)
    store.feedback.save(message.pk, -1, comment=f"{WORD}-own", user=person)
    store.feedback.save(message.pk, -1, comment=f"{OTHERS}-review", source="reviewer", user=bob)
    found = everything(exported(person))
    # In feedback.jsonl, and in both forms of the session.
    assert found.count(f"{WORD}-own".encode()) == 3
    assert f"{OTHERS}-review".encode() not in found


def test_copies_in_forks_of_others_are_there_and_named_as_such(person):
    archive = exported(person)
    forks = [name for name in archive.namelist() if name.startswith("forks/")]
    keys = Session.objects.exclude(forked_from=None).values_list("pk", flat=True)
    assert sorted(forks) == sorted(f"forks/{key}.jsonl" for key in keys)
    head, *copies = map(json.loads, archive.read(forks[0]).decode().splitlines())
    assert head == {"copies_of": str(person.pk), "in_session": forks[0][6:-6]}
    assert len(copies) == 4


def test_a_session_is_imported_again_with_its_files(person, tmp_path):
    exported(person).extractall(tmp_path)
    Session.objects.filter(owner=person).delete()
    for path in (tmp_path / "sessions").glob("*/session.jsonl"):
        call_command("agent_sessions_import", "jsonl", str(path), owner="lovelace-1815")
    store = SessionStore(owner=person)
    session = store.get(f"{WORD}-1-id")
    agent = store.agents.open(session, dialect="strands")
    picture = store.payloads(agent)[3]["content"][1]["image"]["source"]["bytes"]
    assert picture == BINARY + b"1"


def test_one_event_says_that_it_was_exported(person):
    before = AuditEvent.objects.count()
    exported(person)
    assert AuditEvent.objects.count() == before + 1
    event = AuditEvent.objects.get(action="exported")
    assert (event.actor, event.reason) == ("desk", "Request 32")
    assert event.details["sessions"] == 2
    assert str(person.pk) != event.details["person"]


def test_redacted_words_stay_redacted(person):
    for session in Session.objects.filter(owner=person):
        redact(session.pk, Find(f"{WORD}-0-text1"), reason="a request")
    found = everything(exported(person))
    assert f"{WORD}-0-text0".encode() in found
    session = Session.objects.get(session_id=f"{WORD}-0-id")
    folder = f"sessions/{session.pk}/"
    archive = exported(person)
    mine = b"".join(archive.read(n) for n in archive.namelist() if n.startswith(folder))
    assert f"{WORD}-0-text1".encode() not in mine


def test_a_missing_file_is_told_and_the_rest_is_there(person, blob_folder):  # noqa: F811 - the fixture
    file = Path(blob_folder) / Blob.objects.order_by("pk")[0].file
    file.unlink()
    export = export_person(person, reason="Request 32")
    archive = zipfile.ZipFile(io.BytesIO(b"".join(export)))
    assert len(export.problems) == 1
    assert archive.read("problems.txt").decode() == export.problems[0] + "\n"
    assert BINARY + b"1" in everything(archive)


@pytest.mark.parametrize("owner", [None, "", NOBODY, EVERYBODY, "nobody with this key"])
def test_without_a_person_it_is_refused(db, owner):
    with pytest.raises(ConfigurationError):
        export_person(owner, reason="Request 32")
    assert not AuditEvent.objects.exists()


def test_without_a_reason_it_is_refused(person):
    with pytest.raises(ReasonRequiredError):
        export_person(person, reason=" ")


def test_the_command_writes_the_file(person, tmp_path):
    path = tmp_path / "ada.zip"
    call_command("agent_sessions_export_person", path, owner="lovelace-1815", reason="Request 32")
    with zipfile.ZipFile(path) as archive:
        assert json.loads(archive.read("manifest.json"))["person"]["username"] == "lovelace-1815"
    with pytest.raises(CommandError, match="already exists"):
        call_command(
            "agent_sessions_export_person", path, owner="lovelace-1815", reason="Request 32"
        )


@pytest.mark.parametrize(
    "options", [{"owner": ""}, {"owner": "unknown"}, {"owner": "lovelace-1815", "reason": ""}]
)
def test_the_command_refuses(person, tmp_path, options):
    with pytest.raises(CommandError):
        call_command(
            "agent_sessions_export_person", tmp_path / "a.zip", **{"reason": "x", **options}
        )
    assert list(tmp_path.glob("*.zip*")) == []


def test_a_person_without_anything_gets_an_archive(bob):
    assert "manifest.json" in exported(bob).namelist()
    assert not SessionMessage.objects.exists()


def test_the_memory_of_an_archive_is_that_of_a_piece():
    def pieces():
        for number in range(500):
            yield (str(number) * 100_000).encode()[:100_000]

    tracemalloc.start()
    try:
        size = sum(map(len, stream_zip([("a", pieces()), ("b", pieces())])))
        _now, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size > 100_000
    assert most < 3_000_000


def test_an_archive_after_an_error_is_not_complete():
    def failing():
        yield b"a"
        raise BufferError

    taken: list[bytes] = []
    with pytest.raises(BufferError):
        taken.extend(stream_zip([("a", [b"x" * 10]), ("b", failing())]))
    with pytest.raises(zipfile.BadZipFile):
        zipfile.ZipFile(io.BytesIO(b"".join(taken)))
