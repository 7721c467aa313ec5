"""``StorageSessionRepository``, method by method: errors, damage, attacks, and what it costs."""

from __future__ import annotations

import itertools
import logging
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import FileSystemStorage, InMemoryStorage
from hypothesis import given
from strands.session import FileSessionManager
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from django_agent_sessions.adapters.strands import StorageSessionRepository
from django_agent_sessions.exceptions import InvalidIdError, PayloadError
from django_agent_sessions.interchange.layout import Layout
from django_agent_sessions.testing import (
    HOSTILE_IDS,
    IMPOSSIBLE_IDS,
    Contract,
    ConversationContract,
)
from django_agent_sessions.testing.base import in_threads
from tests.s3 import bucket_fixture  # noqa: F401 - a fixture
from tests.strategies import exactly, json_values

from .layouts import Bucket, Directory, agent, graph
from .scripted import Redact
from .test_contract import MessageDriver, RepositoryDriver

MIDNIGHT = "2024-02-29T00:00:00+00:00"
LATER = "2024-02-29T01:02:03.456789+00:00"

SEPARATED = ("../x", "a/b", "/etc/passwd", "..\\x", "a\\b", "C:\\temp\\x", "x/..")


@pytest.fixture
def place(tmp_path) -> Directory:
    return Directory(tmp_path)


@pytest.fixture(params=["directory", "memory", "bucket"])
def repository(request, tmp_path) -> StorageSessionRepository:
    kinds: dict[str, Any] = {
        "directory": lambda: FileSystemStorage(tmp_path),
        "memory": InMemoryStorage,
        "bucket": lambda: request.getfixturevalue("bucket").storage,
    }
    return StorageSessionRepository(kinds[request.param](), "some/where/")


def message(text: str, number: int, **content: Any) -> SessionMessage:
    blocks: Any = [{"text": text}, *([content] if content else [])]
    return SessionMessage(
        {"role": "user", "content": blocks}, number, created_at=MIDNIGHT, updated_at=LATER
    )


class TestMethods:
    def test_all_comes_back_equal(self, repository):
        session = Session("s", SessionType.AGENT, created_at=MIDNIGHT, updated_at=LATER)
        made = SessionAgent(
            "a",
            {"z": 1, "a": [None, 1.5, "\x00", b"\x00\xff"]},
            {"__name__": "Null", "removed_message_count": 3},
            {"interrupt_state": {"activated": False}},
            created_at=MIDNIGHT,
            updated_at=LATER,
        )
        written = message("hello", 0, document={"source": {"bytes": b"\x00\xff" * 500}})
        orchestrator = graph(None)

        assert repository.create_session(session) is session
        repository.create_agent("s", made)
        repository.create_message("s", "a", written)
        repository.create_multi_agent("s", orchestrator)

        assert repository.read_session("s") == session
        assert repr(repository.read_agent("s", "a")) == repr(made)
        assert repr(repository.read_message("s", "a", 0)) == repr(written)
        assert repository.list_messages("s", "a") == [written]
        assert repository.read_multi_agent("s", "graph") == orchestrator.serialize_state()

    def test_what_is_not_there_is_none(self, repository):
        assert repository.read_session("s") is None
        assert repository.read_agent("s", "a") is None
        assert repository.read_message("s", "a", 0) is None
        assert repository.read_multi_agent("s", "m") is None
        assert repository.list_messages("s", "a") == []

    def test_what_is_not_there_is_not_changed(self, repository):
        for attempt in (
            lambda: repository.update_agent("s", SessionAgent("a", {}, {})),
            lambda: repository.update_message("s", "a", message("x", 0)),
            lambda: repository.update_multi_agent("s", graph(None)),
            lambda: repository.delete_session("s"),
        ):
            with pytest.raises(SessionException, match="does not exist"):
                attempt()

    def test_what_is_there_is_not_created_again(self, repository):
        for text in ("first", "second"):
            attempts = (
                partial(repository.create_session, Session("s", SessionType.AGENT, text)),
                partial(repository.create_agent, "s", SessionAgent("a", {"said": text}, {})),
                partial(repository.create_message, "s", "a", message(text, 0)),
                partial(repository.create_multi_agent, "s", graph(None)),
            )
            for attempt in attempts:
                if text == "first":
                    attempt()
                    continue
                with pytest.raises(SessionException, match="exists already"):
                    attempt()

        assert repository.read_session("s").created_at == "first"
        assert repository.read_agent("s", "a").state == {"said": "first"}
        assert repository.list_messages("s", "a") == [message("first", 0)]

    def test_an_update_keeps_when_it_was_made(self, repository):
        repository.create_session(Session("s", SessionType.AGENT))
        repository.create_agent("s", SessionAgent("a", {"old": 1}, {}, created_at=MIDNIGHT))
        repository.create_message("s", "a", message("old", 0))
        repository.create_multi_agent("s", graph(None))
        changed = SessionMessage({"role": "user", "content": [{"text": "new"}]}, 0)
        orchestrator = graph(None)
        orchestrator.state.execution_count = 7

        repository.update_agent("s", SessionAgent("a", {"new": 2}, {}))
        repository.update_message("s", "a", changed)
        repository.update_multi_agent("s", orchestrator)

        found = repository.read_agent("s", "a")
        assert (found.state, found.created_at) == ({"new": 2}, MIDNIGHT)
        assert repository.read_message("s", "a", 0) == changed
        assert changed.created_at == MIDNIGHT
        assert repository.read_multi_agent("s", "graph") == orchestrator.serialize_state()

    def test_messages_are_listed_in_pages_in_order(self, repository):
        for number in range(12):
            repository.create_message("s", "a", message(str(number), number))

        def listed(**page: Any) -> list[int]:
            return [m.message_id for m in repository.list_messages("s", "a", **page)]

        assert listed() == list(range(12))
        assert listed(limit=2) == [0, 1]
        assert listed(offset=9) == [9, 10, 11]
        assert listed(limit=2, offset=1) == [1, 2]
        assert listed(limit=0) == listed(offset=12) == []

    def test_a_deleted_session_leaves_no_file(self, repository):
        for session_id in ("s", "t"):
            repository.create_session(Session(session_id, SessionType.AGENT))
            repository.create_agent(session_id, SessionAgent("a", {}, {}))
            repository.create_message(session_id, "a", message("x", 0))
            repository.create_multi_agent(session_id, graph(None))

        repository.delete_session("s")

        assert repository.read_session("s") is None
        assert repository.read_agent("s", "a") is None
        assert repository.list_messages("s", "a") == []
        assert repository.list_messages("t", "a") == [message("x", 0)]
        with pytest.raises(SessionException):
            repository.delete_session("s")
        repository.create_session(Session("s", SessionType.AGENT))

    def test_what_is_no_json_is_refused_and_says_nothing_of_it(self, repository):
        repository.create_message("s", "a", message("good", 0))
        bad: Any = {"plantedsecret": {1, 2}}
        for write in (repository.create_message, repository.update_message):
            with pytest.raises(PayloadError) as refused:
                write("s", "a", message("x", 0 if "update" in write.__name__ else 1, json=bad))
            assert "plantedsecret" not in str(refused.value)

        assert repository.list_messages("s", "a") == [message("good", 0)]

    # Storages in general cannot promise that.
    @pytest.mark.parametrize("repository", ["directory", "bucket"], indirect=True)
    def test_one_of_several_writers_of_a_number_succeeds(self, repository):
        def write(text: str) -> str | None:
            try:
                repository.create_message("s", "a", message(text, 0))
            except SessionException:
                return None
            return text

        won = [text for text in in_threads(*(partial(write, name) for name in "abcd")) if text]

        assert [m.message["content"][0]["text"] for m in repository.list_messages("s", "a")] == won

    def test_a_storage_has_its_alias(self, tmp_path, settings):
        settings.STORAGES = {
            **settings.STORAGES,
            "conversations": {
                "BACKEND": "django.core.files.storage.FileSystemStorage",
                "OPTIONS": {"location": tmp_path},
            },
        }
        StorageSessionRepository("conversations").create_session(Session("s", SessionType.AGENT))

        assert (tmp_path / "session_s/session.json").exists()
        with pytest.raises(Exception, match="nowhere"):
            StorageSessionRepository("nowhere")


@pytest.fixture(scope="module")
def both(tmp_path_factory) -> Any:
    """Ours and Strands', each in a directory, and the numbers of messages."""
    path = tmp_path_factory.mktemp("exact")
    ours, theirs = Directory(path / "ours"), Directory(path / "theirs")
    ours.repository().create_session(Session("s", SessionType.AGENT))
    return ours, theirs, itertools.count()


class TestExactness:
    @given(json_values)
    def test_whatever_is_said_is_written_and_read_as_strands_does(self, both, value):
        ours, theirs, numbers = both
        written = message("x", next(numbers), toolResult=value)
        number = written.message_id
        ours.repository().create_message("s", "a", written)
        try:
            theirs.strands("s").create_message("s", "a", written)
        except UnicodeEncodeError:
            # A lone surrogate, which Strands reads but does not write.
            pass
        else:
            name = f"sessions/session_s/agents/agent_a/messages/message_{number}.json"
            assert (ours.path / name).read_bytes() == (theirs.path / name).read_bytes()
        found = ours.repository().read_message("s", "a", number)

        assert exactly(found) == exactly(ours.strands("s").read_message("s", "a", number))


class StorageDriver(RepositoryDriver):
    """Builds a repository for each call; a namespace is a prefix."""

    def __init__(self, path: Path, namespace: str) -> None:
        MessageDriver.__init__(self, None, namespace)
        # The same as the one on the database, for what the driver does with it.
        repository: Any = StorageSessionRepository(FileSystemStorage(path), namespace or "files")
        self.repository = repository


class TestContract(Contract[StorageDriver]):
    """Of the contract of every adapter, what holds without owners and transactions."""

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path) -> None:
        self.path = tmp_path

    def driver(self, *, owner: Any = None, namespace: str = "") -> StorageDriver:
        return StorageDriver(self.path, namespace)

    def positions(self, session_id: str) -> list[int]:
        layout = Layout(FileSystemStorage(self.path), "files")
        return layout.message_numbers(session_id, RepositoryDriver.agent_id)

    test_order = ConversationContract.test_messages_stay_in_order_at_dense_positions
    test_writers = ConversationContract.test_writers_at_the_same_time_all_keep_their_messages
    test_spaces = ConversationContract.test_sessions_and_namespaces_do_not_meet
    test_looks = ConversationContract.test_ids_that_only_look_alike_are_different
    test_no_ids = ConversationContract.test_an_id_that_cannot_be_one_is_refused


class TestIds:
    @pytest.mark.parametrize("bad", [*SEPARATED, *IMPOSSIBLE_IDS])
    def test_an_id_that_leads_elsewhere_is_refused_everywhere(self, place, bad):
        repository = place.repository()
        repository.create_session(Session("s", SessionType.AGENT))
        before = place.files()
        orchestrator = graph(None)
        orchestrator.id = bad
        for attempt in (
            lambda: repository.create_session(Session(bad, SessionType.AGENT)),
            lambda: repository.read_session(bad),
            lambda: repository.delete_session(bad),
            lambda: repository.create_agent("s", SessionAgent(bad, {}, {})),
            lambda: repository.create_agent(bad, SessionAgent("a", {}, {})),
            lambda: repository.read_agent("s", bad),
            lambda: repository.update_agent("s", SessionAgent(bad, {}, {})),
            lambda: repository.create_message("s", bad, message("x", 0)),
            lambda: repository.read_message(bad, "a", 0),
            lambda: repository.update_message("s", bad, message("x", 0)),
            lambda: repository.list_messages("s", bad),
            lambda: repository.create_multi_agent("s", orchestrator),
            lambda: repository.read_multi_agent("s", bad),
            lambda: repository.update_multi_agent("s", orchestrator),
        ):
            with pytest.raises(ValueError, match=r"must|has"):
                attempt()

        assert issubclass(InvalidIdError, ValueError)
        assert place.files() == before

    @pytest.mark.parametrize("number", ["../../x", "0", None, 1.0, True, -1])
    def test_a_number_that_is_none_is_refused(self, place, number):
        repository = place.repository()
        for attempt in (
            lambda: repository.create_message("s", "a", message("x", number)),
            lambda: repository.read_message("s", "a", number),
            lambda: repository.update_message("s", "a", message("x", number)),
        ):
            with pytest.raises(ValueError, match="integer"):
                attempt()
        assert place.files() == {}

    @pytest.mark.parametrize(
        "name",
        [name for name in HOSTILE_IDS if not {"/", "\\"} & set(name) and len(name) < 200],
    )
    def test_any_other_text_is_an_id_for_both(self, place, name):
        repository = place.repository()
        repository.create_session(Session(name, SessionType.AGENT))
        repository.create_agent(name, SessionAgent(name, {}, {}))
        repository.create_message(name, name, message("here", 0))

        assert place.strands(name).read_message(name, name, 0) == message("here", 0)
        assert Layout(place.storage, "sessions").session_ids() == [name]


class TestLinks:
    @pytest.mark.parametrize(
        "name",
        [
            "session.json",
            "agents/agent_a/agent.json",
            "agents/agent_a/messages/message_0.json",
            "multi_agents/multi_agent_graph/multi_agent.json",
        ],
    )
    def test_a_file_that_is_a_link_is_refused_as_strands_does(self, place, name, tmp_path):
        repository = place.repository()
        repository.create_session(Session("s", SessionType.AGENT))
        repository.create_agent("s", SessionAgent("a", {}, {}))
        repository.create_message("s", "a", message("x", 0))
        repository.create_multi_agent("s", graph(None))
        file = tmp_path / "sessions/session_s" / name
        elsewhere = tmp_path / "elsewhere.json"
        elsewhere.write_bytes(file.read_bytes())
        file.unlink()
        file.symlink_to(elsewhere)
        of_strands = FileSessionManager.__new__(FileSessionManager)
        of_strands.storage_dir = str(tmp_path / "sessions")

        for both in (repository, of_strands):
            calls: dict[str, Any] = {
                "session.json": lambda both=both: both.read_session("s"),
                "agent.json": lambda both=both: both.update_agent("s", SessionAgent("a", {}, {})),
                "message_0.json": lambda both=both: both.list_messages("s", "a"),
                "multi_agent.json": lambda both=both: both.update_multi_agent("s", graph(None)),
            }
            with pytest.raises(SessionException, match="link"):
                calls[Path(name).name]()
        assert elsewhere.read_bytes()

    def test_a_deleted_session_takes_nothing_along_that_a_link_leads_to(self, place, tmp_path):
        repository = place.repository()
        repository.create_session(Session("s", SessionType.AGENT))
        theirs = tmp_path / "theirs"
        theirs.mkdir()
        (theirs / "precious").write_bytes(b"x")
        (tmp_path / "sessions/session_s/agents/agent_x").symlink_to(theirs)
        (tmp_path / "sessions/session_s/more").symlink_to(theirs / "precious")
        (tmp_path / "sessions/session_t").symlink_to(theirs)

        repository.delete_session("s")
        repository.delete_session("t")

        assert (theirs / "precious").read_bytes() == b"x"
        assert not (tmp_path / "sessions/session_s").exists()
        assert not (tmp_path / "sessions/session_t").is_symlink()


@pytest.fixture(params=["directory", "bucket"])
def damaged(request, tmp_path) -> Any:
    """A place with a conversation, to be damaged."""
    made: Any = (
        Directory(tmp_path)
        if request.param == "directory"
        else Bucket(request.getfixturevalue("bucket"))
    )
    first = agent(made.ours("s"), "One.", "Two.", state={"mood": "good"})
    first("First")
    first("Second")
    return made


FOLDER = "sessions/session_s/agents/agent_a"

CORRUPT = [
    b"",
    b"{",
    b"\xff\xfe",
    b"[]",
    b"null",
    b'{"message": 1}',
    b'{"message": {"role": "user"}, "message_id": 1}',
    b'{"message": {"role": "user", "content": [{"__bytes_encoded__": true, "data": "x"}]}}',
    b"[" * 100_000,
]


class TestDamage:
    @pytest.mark.parametrize("data", CORRUPT, ids=range(len(CORRUPT)))
    def test_a_corrupt_message_is_left_out_and_the_others_are_there(self, place, data, caplog):
        first = agent(place.ours("s"), "One.", "Two.")
        first("First")
        first("Second")
        place.put(f"{FOLDER}/messages/message_1.json", data)

        with caplog.at_level(logging.WARNING):
            restored = agent(place.ours("s"), "Three.")

        said = [m["content"][0]["text"] for m in restored.messages]
        assert said == ["First", "Second", "Two."]
        assert "message_1.json" in caplog.text
        assert "role" not in caplog.text
        restored("Third")
        assert len(agent(place.ours("s")).messages) == 5
        assert place.files()[f"{FOLDER}/messages/message_1.json"] == data

    def test_the_number_of_a_corrupt_last_message_is_not_used_again(self, damaged, caplog):
        name = f"{FOLDER}/messages/message_3.json"
        damaged.put(name, b"corrupt")

        restored = agent(damaged.ours("s"), "Three.")
        restored("Third")

        assert damaged.files()[name] == b"corrupt"
        said = [m["content"][0]["text"] for m in agent(damaged.ours("s")).messages]
        assert said == ["First", "One.", "Second", "Third", "Three."]
        assert f"{FOLDER}/messages/message_4.json" in damaged.files()
        assert "message_3.json" in caplog.text

    def test_a_corrupt_message_that_is_redacted_is_said_to_be_missing(self, damaged):
        damaged.put(f"{FOLDER}/messages/message_3.json", b"corrupt")

        with pytest.raises(SessionException, match="does not exist"):
            damaged.repository().update_message("s", "a", message("x", 3))

    def test_stray_files_are_named_and_passed_over(self, damaged, caplog):
        strays = ["message_abc.json", "message_1.json.tmp", "message_01.json", "notes.txt", "x/y"]
        for name in strays:
            damaged.put(f"{FOLDER}/messages/{name}", b"{}")

        with caplog.at_level(logging.WARNING):
            restored = agent(damaged.ours("s"), "Three.")
        restored("Third")

        assert len(agent(damaged.ours("s")).messages) == 6
        for name in [*strays[:-1], "x"]:
            assert f"{FOLDER}/messages/{name}" in caplog.text

    def test_a_folder_with_the_name_of_a_message_keeps_its_number(self, place, tmp_path, caplog):
        agent(place.ours("s"), "One.")("First")
        (tmp_path / FOLDER / "messages/message_2.json").mkdir()

        restored = agent(place.ours("s"), "Two.")
        restored("Second")

        assert len(agent(place.ours("s")).messages) == 4
        assert "message_2.json" in caplog.text

    @pytest.mark.parametrize("data", [b"{", b'{"agent_id": "a"}', b'{"state": 1}'])
    def test_an_agent_whose_state_is_corrupt_goes_on_without_it(self, damaged, data, caplog):
        damaged.put(f"{FOLDER}/agent.json", data)

        restored = agent(damaged.ours("s"), "Three.")

        assert len(restored.messages) == 4
        assert restored.state.get() == {}
        assert "goes on without its state" in caplog.text
        restored("Third")
        assert damaged.files()[f"{FOLDER}/agent.json.corrupt"] == data
        assert len(agent(damaged.strands("s")).messages) == 6

    def test_an_agent_may_be_created_in_place_of_a_corrupt_one(self, damaged):
        damaged.put(f"{FOLDER}/agent.json", b"{")

        damaged.repository().create_agent("s", SessionAgent("a", {"new": 1}, {}))

        assert damaged.repository().read_agent("s", "a").state == {"new": 1}
        assert damaged.files()[f"{FOLDER}/agent.json.corrupt"] == b"{"

    def test_an_orchestrator_whose_state_is_corrupt_starts_from_the_beginning(self, place, caplog):
        graph(place.ours("s"))("Go")
        name = "sessions/session_s/multi_agents/multi_agent_graph/multi_agent.json"
        place.put(name, b"{")

        assert graph(place.ours("s"))("Go").status.value == "completed"

        assert place.files()[f"{name}.corrupt"] == b"{"
        assert place.repository().read_multi_agent("s", "graph")["status"] == "completed"
        assert "starts from the beginning" in caplog.text

    @pytest.mark.parametrize("data", [b"{", b'{"x": 1}'])
    def test_a_session_is_used_without_its_file_if_that_is_corrupt(self, damaged, data, caplog):
        damaged.put("sessions/session_s/session.json", data)

        assert len(agent(damaged.ours("s")).messages) == 4
        assert "used without its file" in caplog.text

    def test_a_folder_without_its_session_may_be_created(self, place, tmp_path):
        (tmp_path / "sessions/session_s").mkdir(parents=True)

        agent(place.ours("s"), "One.")("First")

        assert len(agent(place.ours("s")).messages) == 2

    def test_an_error_of_the_storage_is_no_damage(self, place, monkeypatch):
        agent(place.ours("s"), "One.")("First")

        def down(*_arguments: Any) -> Any:
            raise ConnectionError("down")

        monkeypatch.setattr(FileSystemStorage, "open", down)
        with pytest.raises(ConnectionError):
            place.repository().list_messages("s", "a")

    def test_a_message_that_goes_while_it_is_listed_is_left_out(self, place, monkeypatch, caplog):
        agent(place.ours("s"), "One.")("First")
        monkeypatch.setattr(Layout, "message_numbers", lambda *_arguments: [0, 1, 2])

        assert len(place.repository().list_messages("s", "a")) == 2
        assert "Message 2" in caplog.text


class TestRedaction:
    def test_a_guardrail_leaves_what_strands_own_managers_leave(self, damaged):
        agent(damaged.ours("g"), Redact("[blocked]"))("plantedsecret")

        said = [m["content"] for m in agent(damaged.strands("g")).messages]
        assert said == [[{"text": "[blocked]"}], [{"text": "I cannot talk about that."}]]


class TestRequests:
    def test_a_bucket_is_asked_for_no_more_than_needed(self, bucket):
        place = Bucket(bucket)
        folder = "sessions/session_s"
        with bucket.requests() as sent:
            first = agent(place.ours("s"), "One.")
            assert sent == [
                f"GET {folder}/session.json",
                f"HEAD {folder}/session.json",
                f"PUT {folder}/session.json",
                f"HEAD {folder}/agents/agent_a/agent.json",
                f"PUT {folder}/agents/agent_a/agent.json",
            ]
            sent.clear()
            first("First")
            assert [r for r in sent if "/messages/" in r] == [
                f"{method} {folder}/agents/agent_a/messages/message_{number}.json"
                for number in (0, 1)
                for method in ("HEAD", "PUT")
            ]
            sent.clear()
            agent(place.ours("s"))
            listing, *messages = sorted(sent[2:])

        assert listing.startswith("GET ?list-type=2")
        assert "prefix=sessions%2Fsession_s%2Fagents%2Fagent_a%2Fmessages%2F&" in listing
        assert messages == [
            f"GET {folder}/agents/agent_a/messages/message_{number}.json" for number in (0, 1)
        ]


WITHOUT_DATABASE = """
import sys
from django.conf import settings
settings.configure(
    DATABASES={},
    INSTALLED_APPS=[
        "django.contrib.contenttypes", "django.contrib.auth", "django_agent_sessions"
    ],
    STORAGES={"conversations": {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": sys.argv[1]},
    }},
)
import django
django.setup()
from tests.adapters.strands.scripted import ScriptedModel
from tests.test_documentation import example
answer = example("storage-layouts.md", "answer")
assert answer("s", "First", ScriptedModel(["One."])).strip() == "One."
assert answer("s", "Second", ScriptedModel()).strip() == "You said: Second"
"""


def test_the_example_of_the_documentation_runs_without_a_database(tmp_path):
    subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_DATABASE, str(tmp_path)],
        check=True,
        timeout=120,
        cwd=Path(__file__).parents[3],
    )

    restored = agent(FileSessionManager("s", str(tmp_path / "chats")), agent_id="helper")

    assert [m["role"] for m in restored.messages] == ["user", "assistant"] * 2
