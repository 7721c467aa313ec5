from __future__ import annotations

import gzip
import hashlib
import io
import json
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import FileSystemStorage
from django.core.management import CommandError, call_command

from django_agent_sessions.adapters.strands import DjangoSessionManager
from django_agent_sessions.blobs.placeholders import PLACEHOLDER
from django_agent_sessions.interchange import JsonLines, import_sessions
from django_agent_sessions.models import AuditEvent, Blob, Session
from django_agent_sessions.store import SessionStore
from tests.adapters.strands.layouts import Directory, agent

pytestmark = pytest.mark.django_db


def run(*arguments: object, **options: Any) -> str:
    out = io.StringIO()
    if not {"--session", "--owner"} & set(map(str, arguments)):
        arguments = (*arguments, "--everybody")
    options = {"reason": "as asked", "stderr": io.StringIO(), **options}
    call_command("agent_sessions_export", *map(str, arguments), stdout=out, **options)
    return out.getvalue()


@pytest.fixture
def talks(store, ada):
    """Three sessions: of nobody, of a user, and of a namespace."""
    for name in ("one", "two/../2"):
        store.append(store.agents.open(store.open(name)), {"role": "user", "content": f"in {name}"})
    agent(DjangoSessionManager("strands"), "in strands")("hi")
    Session.objects.filter(session_id="one").update(owner=ada)
    Session.objects.filter(session_id="strands").update(namespace="n")


def names(text: str) -> set[str]:
    return {json.loads(line)["session"]["session_id"] for line in text.splitlines()}


def test_lines_go_to_the_standard_output_or_a_file_that_may_be_compressed(talks, tmp_path):
    text = run("jsonl")
    assert names(text) == {"one", "two/../2", "strands"}

    run("jsonl", tmp_path / "a.jsonl")
    run("jsonl", tmp_path / "a.jsonl.gz")

    assert (tmp_path / "a.jsonl").read_text() == text
    assert gzip.decompress((tmp_path / "a.jsonl.gz").read_bytes()).decode() == text


def test_each_session_is_recorded_with_who_and_why(talks, ada):
    run("jsonl", "--session", "one", actor="ada", reason="for ada@example.org")

    event = AuditEvent.objects.get()
    assert event.action == AuditEvent.Action.EXPORTED
    assert event.session == Session.objects.get(session_id="one").pk
    assert (event.actor, event.actor_id) == ("ada", str(ada.pk))
    assert "example.org" not in event.reason
    assert event.details == {"format": "jsonl", "messages": 1, "via": "agent_sessions_export"}


def test_nobody_exports_in_a_name_that_is_not_theirs(talks, tmp_path):
    for who in (["--actor", "nobodyuser"], ["--program", "ada"]):
        with pytest.raises(CommandError, match=r"--program|--actor"):
            run("jsonl", tmp_path / "a.jsonl", *who)
    assert not AuditEvent.objects.exists()
    assert not any(tmp_path.iterdir())

    run("jsonl", tmp_path / "a.jsonl", "--session", "one", "--program", "archive-job")
    event = AuditEvent.objects.get()
    assert (event.actor, event.actor_id) == ("archive-job", "")


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--session", "one", "--session", "strands"], {"one", "strands"}),
        (["--session", "{key}"], {"one"}),
        (["--owner", "ada"], {"one"}),
        (["--namespace", "n"], {"strands"}),
        (["--namespace", ""], {"one", "two/../2"}),
        (["--since", "2026-03-01"], {"two/../2"}),
        (["--since", "2026-03-01T00:00:00+00:00", "--owner", "ada"], set()),
    ],
)
def test_sessions_are_chosen_by_id_owner_namespace_and_time(talks, options, found):
    for name, month in (("one", 1), ("two/../2", 3), ("strands", 2)):
        Session.objects.filter(session_id=name).update(
            last_activity_at=datetime(2026, month, 15, tzinfo=UTC)
        )
    key = str(Session.objects.get(session_id="one").pk)

    assert names(run("jsonl", *[option.format(key=key) for option in options])) == found
    assert AuditEvent.objects.count() == len(found)


@pytest.mark.parametrize(
    "options",
    [[], ["--namespace", "n"], ["--since", "2026-03-01"], ["--everybody", "--owner", "ada"]],
)
def test_whose_sessions_leave_has_to_be_said(talks, options):
    """As for a redaction: an owner that is forgotten exports nothing of a user."""
    with pytest.raises(CommandError, match="--session ID, --owner USER or --everybody"):
        call_command("agent_sessions_export", "jsonl", *options, reason="x", stdout=io.StringIO())
    assert not AuditEvent.objects.exists()


def test_documents_for_people_have_names_that_no_file_system_minds(talks, tmp_path):
    run("markdown", tmp_path / "docs")

    files = sorted(path.name for path in (tmp_path / "docs").iterdir())
    assert [name.rsplit("_", 1)[0] for name in files] == ["one", "strands", "two-2"]
    assert "> in one" in (tmp_path / "docs" / files[0]).read_text()
    assert list(tmp_path.iterdir()) == [tmp_path / "docs"]
    assert AuditEvent.objects.count() == 3


def test_files_of_strands_are_what_its_own_manager_goes_on_with(talks, tmp_path):
    errors = io.StringIO()

    run("strands-files", tmp_path / "sessions", stderr=errors)

    found = agent(Directory(tmp_path).strands("strands")).messages
    assert [message["content"] for message in found] == [[{"text": "hi"}], [{"text": "in strands"}]]
    # What is not of Strands is told, is no error, and did not leave.
    assert errors.getvalue().splitlines() == [
        "session 'one': no Strands agent",
        "session 'two/../2': no Strands agent",
        "1 session exported",
    ]
    assert AuditEvent.objects.count() == 1
    with pytest.raises(CommandError, match="1 item could not be written"):
        run("strands-files", tmp_path / "sessions")


@pytest.mark.parametrize("long", ["é" * 255, "x" * 250], ids=["letters", "bytes"])
def test_a_name_that_a_file_system_refuses_ends_no_export(store, tmp_path, long):
    def say(session_id, agent_id):
        record = store.agents.open(store.open(session_id), agent_id, dialect="strands")
        store.append(record, {"role": "user", "content": [{"text": "hi"}]})

    for session_id in ("first", long, "last"):
        say(session_id, "a")
    for agent_id in ("b", long, "c"):
        say("agents", agent_id)
    store.multi_agents.create(store.get("agents"), long, {"type": "graph"}, kind="graph")
    store.multi_agents.create(store.get("agents"), "g", {"type": "graph"}, kind="graph")
    errors, sessions = io.StringIO(), tmp_path / "sessions"

    with pytest.raises(CommandError, match="3 items could not be written"):
        run("strands-files", sessions, stderr=errors)

    told = errors.getvalue()
    assert told.count(f"'{long}'") == 3
    assert told.count("the file system has no names of") == 3
    written = {path.parent.name for path in sessions.glob("*/session.json")}
    assert written == {"session_first", "session_last", "session_agents"}
    agents = {path.parent.name for path in sessions.glob("session_agents/agents/*/agent.json")}
    assert agents == {"agent_b", "agent_c"}
    assert len(list(sessions.glob("session_agents/multi_agents/*/multi_agent.json"))) == 1
    # Documents for people have names of their own.
    run("markdown", tmp_path / "docs")
    assert len(list((tmp_path / "docs").iterdir())) == 4


def test_a_session_whose_folder_is_a_link_ends_no_export(talks, store, tmp_path):
    for session_id in ("linked", "zlast"):
        record = store.agents.open(store.open(session_id), dialect="strands")
        store.append(record, {"role": "user", "content": [{"text": "hi"}]})
    (tmp_path / "sessions").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "sessions" / "session_linked").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(CommandError, match="could not be written"):
        run("strands-files", tmp_path / "sessions")

    assert (tmp_path / "sessions" / "session_zlast" / "session.json").exists()
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (["jsonl"], {"reason": " "}, "'exported' requires a --reason"),
        (["markdown"], {}, "markdown requires a PLACE"),
        (["strands-files"], {}, "strands-files requires a PLACE"),
        (["jsonl", "{file}"], {}, "already exists: choose another name"),
        (["markdown", "{file}"], {}, "there is a file: use a directory"),
        (["jsonl", "nodir/a.jsonl.gz"], {}, "^directory nodir does not exist: create it first$"),
        (["strands-files", "{file}"], {}, "cannot be created: File exists"),
        (["jsonl", "--session", "nope"], {}, "session 'nope' does not exist, or another option"),
        (["jsonl", "--owner", "nope"], {}, "user 'nope' does not exist"),
        # As scripts give them whose variables are empty.
        (["jsonl", "--owner", ""], {}, "user '' does not exist"),
        (["jsonl", "--since", ""], {}, "--since: '' is not a date"),
        (["jsonl", "--since", "yesterday"], {}, "--since: 'yesterday' is not a date"),
        (["jsonl", "--blobs-beside"], {}, "--blobs-beside requires the format jsonl"),
        (["paper"], {}, "invalid choice: 'paper'"),
    ],
)
def test_what_is_mistyped_is_told_in_a_line_and_nothing_leaves(
    talks, tmp_path, arguments, options, words
):
    file: Path = tmp_path / "there"
    file.write_text("mine")

    with pytest.raises(CommandError, match=words):
        run(*[argument.format(file=file) for argument in arguments], **options)

    assert file.read_text() == "mine"
    assert not AuditEvent.objects.exists()


@pytest.fixture
def storage(settings, tmp_path):
    """Where large binaries go."""
    settings.STORAGES = {
        **settings.STORAGES,
        "blobs": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": str(tmp_path / "storage")},
        },
    }
    settings.AGENT_SESSIONS = {"BLOB_STORAGE": "blobs"}
    return tmp_path / "storage"


def test_what_cannot_be_read_is_left_out_whole_and_the_rest_goes_on(store, storage, tmp_path):
    store.append(
        store.agents.open(store.open("lost")), {"role": "user", "content": [{"x": bytes(20_000)}]}
    )
    # It is there, and cannot be read.
    image = storage / Blob.objects.get().file
    image.unlink()
    image.mkdir()
    later = store.open("later")
    store.append(store.agents.open(later), {"role": "user", "content": "all of it"})
    file, errors = tmp_path / "a.jsonl", io.StringIO()

    with pytest.raises(CommandError, match="1 item could not be written"):
        run("jsonl", file, stderr=errors)

    assert names(file.read_text()) == {"later"}
    told, count = errors.getvalue().splitlines()
    assert told.startswith("session 'lost': ")
    assert "could not be read" in told
    assert count == "1 session exported"
    # Nothing stands in the way of the next run, nor is a file there that has nothing in it.
    with pytest.raises(CommandError, match="no session could be written"):
        run("jsonl", tmp_path / "b.jsonl.gz", "--session", "lost")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "storage"]


def test_a_document_that_is_there_already_is_not_touched(talks, tmp_path):
    run("markdown", tmp_path, "--session", "one")
    [document] = tmp_path.iterdir()
    document.write_text("mine")
    errors = io.StringIO()

    with pytest.raises(CommandError, match="1 item could not be written"):
        run("markdown", tmp_path, stderr=errors)

    assert document.read_text() == "mine"
    assert errors.getvalue().startswith(f"session 'one': {document} already exists")
    assert len(list(tmp_path.iterdir())) == 3
    assert AuditEvent.objects.count() == 3


def test_an_export_that_is_stopped_leaves_no_half_file(talks, tmp_path):
    class Stopping(io.StringIO):
        """A terminal at which somebody types Ctrl-C while something is told."""

        def write(self, text: str) -> int:
            signal.raise_signal(signal.SIGINT)
            return len(text)

    with pytest.raises(KeyboardInterrupt):
        run("strands-files", tmp_path / "sessions", stderr=Stopping())

    Session.objects.exclude(session_id="strands").delete()
    with pytest.raises(KeyboardInterrupt):
        run("jsonl", tmp_path / "out.jsonl", stderr=Stopping())
    assert not list(tmp_path.rglob("*.part"))


def test_an_export_whose_reader_goes_away_ends_silently(talks):
    class Closed(io.StringIO):
        """What ``| head`` leaves."""

        def write(self, text: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    errors = io.StringIO()

    with pytest.raises(SystemExit) as end:
        call_command(
            "agent_sessions_export",
            "jsonl",
            everybody=True,
            reason="x",
            stdout=Closed(),
            stderr=errors,
        )

    assert (end.value.code, errors.getvalue()) == (141, "")


def _values(message: Any) -> list[bytes]:
    return [block["x"] for block in message["content"]]


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz"])
@pytest.mark.usefixtures("storage")
def test_large_binaries_may_be_beside_the_lines(store, tmp_path, ending):
    said = [{"role": "user", "content": [{"x": bytes([n]) * 20_000}]} for n in range(3)]
    store.append_many(store.agents.open(store.open("s")), said)
    lost = Blob.objects.order_by("pk")[2]
    FileSystemStorage(tmp_path / "storage").delete(lost.file)

    folder = tmp_path / "all.blobs" / str(lost.session_id)
    folder.mkdir(parents=True)
    # Another export was killed, or somebody put something there; some are whole.
    whole, damaged, _ = Blob.objects.order_by("pk")
    data = {hashlib.sha256(value).hexdigest(): value for [value] in map(_values, said)}
    (folder / damaged.sha256).write_bytes(b"x" * damaged.size)
    (folder / whole.sha256).write_bytes(data[whole.sha256])
    written = (folder / whole.sha256).stat()  # its time of access moves when it is read

    errors = io.StringIO()
    with pytest.raises(CommandError, match="1 item could not be written"):
        run("jsonl", tmp_path / f"all{ending}", "--blobs-beside", stderr=errors)

    assert errors.getvalue().splitlines() == [
        f"session 's': binary {lost.pk} of session {lost.session_id} is missing from storage "
        "'blobs'; the rest of the session is exported",
        "1 session exported",
    ]
    now = (folder / whole.sha256).stat()
    assert (now.st_ino, now.st_mtime_ns) == (written.st_ino, written.st_mtime_ns)
    assert (tmp_path / f"all{ending}").stat().st_size < 10_000
    files = sorted(path.name for path in folder.iterdir())
    assert files == sorted(Blob.objects.exclude(pk=lost.pk).values_list("sha256", flat=True))
    Session.objects.all().delete()
    report = import_sessions(JsonLines(tmp_path / f"all{ending}"))
    assert (report.messages, report.errors) == (3, 1)
    assert "one of its binaries is missing from the file or damaged" in report.skipped[0].reason
    found = store.payloads(store.agents.open(store.open("s")))
    assert sum(message in found for message in said) == 2
    # Whatever stands beside is taken only if it is what was said.
    (folder / files[0]).write_bytes(b"another")
    report = import_sessions(JsonLines(tmp_path / f"all{ending}"), namespace="again")
    assert (report.messages, report.skips) == (3, 2)


@pytest.mark.parametrize("damaged", [False, True])
def test_a_binary_that_is_lost_is_told_and_what_was_said_beside_it_is_not_lost(
    store, storage, tmp_path, damaged
):
    image = {"image": {"format": "png", "source": {"bytes": bytes(20_000)}}}
    said = [{"text": "before"}, image, {"text": "after"}]
    whole = store.agents.open(store.open("whole"), dialect="strands")
    store.append(whole, {"role": "user", "content": [{"text": "all of it"}]})
    session = store.open("holed")
    agent = store.agents.open(session, dialect="strands")
    store.append(agent, {"role": "user", "content": said})
    blob = Blob.objects.get()
    if damaged:
        (storage / blob.file).write_bytes(b"x" * blob.size)
    else:
        (storage / blob.file).unlink()
    file, errors = tmp_path / "a.jsonl", io.StringIO()

    with pytest.raises(CommandError, match="1 item could not be written"):
        run("jsonl", file, stderr=errors)

    assert (
        errors.getvalue()
        .splitlines()[0]
        .startswith(
            f"session 'holed': binary {blob.pk} of session {session.id} is "
            + ("damaged in" if damaged else "missing from")
        )
    )
    assert names(file.read_text()) == {"whole", "holed"}
    Session.objects.all().delete()
    report = import_sessions(JsonLines(file))
    assert (report.made, report.messages, report.errors) == (2, 2, 1)
    assert report.skipped[0].place.endswith("agent 'default', message 0")
    [message] = store.payloads(store.agents.open(store.open("holed")))
    assert message["content"] == [said[0], {"text": PLACEHOLDER}, said[2]]
    assert import_sessions(JsonLines(file)).skips == 0


def test_an_id_that_several_sessions_have_is_refused():
    for scope in ("ada", "bob"):
        SessionStore(scope=scope).open("chat")

    with pytest.raises(CommandError, match="several sessions"):
        call_command("agent_sessions_export", "jsonl", session=["chat"], reason="r")
