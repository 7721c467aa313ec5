"""``StorageSessionRepository``, method by method, in a directory, in memory and in a bucket."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from django.core.files.storage import FileSystemStorage, InMemoryStorage
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from django_agent_sessions.adapters.strands import StorageSessionRepository
from django_agent_sessions.exceptions import PayloadError
from django_agent_sessions.testing.base import run_in_threads
from tests.adapters.strands.layouts import graph

from .messages import LATER, MIDNIGHT, message


@pytest.fixture(params=["directory", "memory", "bucket"])
def repository(request, tmp_path) -> StorageSessionRepository:
    kinds: dict[str, Any] = {
        "directory": lambda: FileSystemStorage(tmp_path),
        "memory": InMemoryStorage,
        "bucket": lambda: request.getfixturevalue("bucket").storage,
    }
    return StorageSessionRepository(kinds[request.param](), "some/where/")


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
                with pytest.raises(SessionException, match="already exists"):
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

    # Other storages cannot promise that.
    @pytest.mark.parametrize("repository", ["directory"], indirect=True)
    def test_one_of_several_writers_of_a_number_succeeds(self, repository):
        def write(text: str) -> str | None:
            try:
                repository.create_message("s", "a", message(text, 0))
            except SessionException:
                return None
            return text

        won = [text for text in run_in_threads(*(partial(write, name) for name in "abcd")) if text]

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
