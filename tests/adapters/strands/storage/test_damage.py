"""A file that is corrupt, stray or missing hides no other, and what was in it is kept."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from strands.types.exceptions import SessionException
from strands.types.session import SessionAgent

from django_agent_sessions.blobs.file_storage import reading
from django_agent_sessions.interchange.strands_layout import Layout
from tests.adapters.strands.layouts import agent, graph

from .messages import message

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
        assert "continues with an empty state" in caplog.text
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
        assert "restarts with an empty state" in caplog.text

    @pytest.mark.parametrize("data", [b"{", b'{"x": 1}'])
    def test_a_session_is_used_without_its_file_if_that_is_corrupt(self, damaged, data, caplog):
        damaged.put("sessions/session_s/session.json", data)

        assert len(agent(damaged.ours("s")).messages) == 4
        assert "is ignored because it cannot be parsed" in caplog.text

    def test_a_folder_without_its_session_may_be_created(self, place, tmp_path):
        (tmp_path / "sessions/session_s").mkdir(parents=True)

        agent(place.ours("s"), "One.")("First")

        assert len(agent(place.ours("s")).messages) == 2

    def test_an_error_of_the_storage_is_no_damage(self, place, monkeypatch):
        agent(place.ours("s"), "One.")("First")

        def down(*_arguments: Any) -> Any:
            raise ConnectionError("down")

        monkeypatch.setattr(reading, "open_regular_file", down)
        with pytest.raises(ConnectionError):
            place.repository().list_messages("s", "a")

    def test_a_message_that_goes_while_it_is_listed_is_left_out(self, place, monkeypatch, caplog):
        agent(place.ours("s"), "One.")("First")
        monkeypatch.setattr(Layout, "message_numbers", lambda *_arguments: [0, 1, 2])

        assert len(place.repository().list_messages("s", "a")) == 2
        assert "Message 2" in caplog.text
