"""The layout of Strands' file and S3 managers: what is found, and what is reported instead."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.files.storage import FileSystemStorage, InMemoryStorage

from django_agent_sessions.blobs.file_storage import write_file
from django_agent_sessions.exceptions import PayloadError
from django_agent_sessions.interchange.strands_layout import Layout

MESSAGE: Any = {"message": {"role": "user", "content": [{"text": "hello"}]}, "message_id": 0}
MESSAGES = "session_s/agents/agent_a/messages"


@pytest.fixture(params=["directory", "memory"])
def storage(request, tmp_path) -> Any:
    return FileSystemStorage(tmp_path) if request.param == "directory" else InMemoryStorage()


@pytest.fixture
def reported() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def layout(storage, reported) -> Layout:
    return Layout(storage, "/some/where/", report=lambda *what: reported.append(what))


def test_everything_is_found_again(layout, reported):
    layout.create_session("s", {"session_id": "s"})
    layout.create_session("no agents", {})
    for name in ("b", "a"):
        layout.create_agent("s", name, {"agent_id": name, "state": {"icon": b"\x00"}})
    for number in (10, 2, 0):
        layout.create_message("s", "a", number, {**MESSAGE, "message_id": number})
    layout.create_multi_agent("s", "m", {"id": "m"})

    assert layout.session_ids() == ["no agents", "s"]
    assert layout.read_session("s") == {"session_id": "s"}
    assert layout.agent_ids("s") == ["a", "b"]
    assert layout.agent_ids("no agents") == layout.multi_agent_ids("no agents") == []
    assert layout.read_agent("s", "a") == {"agent_id": "a", "state": {"icon": b"\x00"}}
    assert layout.message_numbers("s", "a") == [0, 2, 10]
    assert layout.message_numbers("s", "b") == layout.message_numbers("s", "nobody") == []
    assert layout.read_message("s", "a", 10) == {**MESSAGE, "message_id": 10}
    assert layout.multi_agent_ids("s") == ["m"]
    assert layout.read_multi_agent("s", "m") == {"id": "m"}
    assert reported == []


def test_without_a_prefix_the_sessions_are_at_the_top(storage):
    Layout(storage).create_session("s", {})

    assert storage.exists("session_s/session.json")
    assert Layout(storage).session_ids() == ["s"]


def test_what_does_not_belong_there_is_reported(layout, storage, reported):
    layout.create_session("s", {})
    for name in (
        "lost+found/x",
        "session_s/agents/notagent/x",
        "session_s/multi_agents/agent_x/x",
        "session_s/agents/agent_a/messages/message_1.json.tmp",
        "session_s/agents/agent_a/messages/message_1/x",
        "session_s/agents/agent_a/messages/message_2.json",
        "session_ /session.json",
    ):
        write_file(storage, f"some/where/{name}", b"{}")

    assert layout.session_ids() == ["s"]
    assert layout.agent_ids("s") == ["a"]
    assert layout.multi_agent_ids("s") == []
    assert layout.message_numbers("s", "a") == [2]
    assert [name.removeprefix("some/where/") for name, _ in reported] == [
        "lost+found",
        "session_ ",
        "session_s/agents/notagent",
        "session_s/multi_agents/agent_x",
        "session_s/agents/agent_a/messages/message_1.json.tmp",
        "session_s/agents/agent_a/messages/message_1",
    ]


def test_messages_that_cannot_be_read_stand_in_their_places(layout, storage):
    for number, data in enumerate([b"plantedsecret", b"[]", b'{"message": {}}']):
        write_file(
            storage, f"some/where/session_s/agents/agent_a/messages/message_{number}.json", data
        )
    layout.create_message("s", "a", 3, MESSAGE)

    found = dict(layout.read_messages("s", "a", [3, 0, 9, 1, 2]))

    assert list(found) == [3, 0, 9, 1, 2]
    assert found[3] == MESSAGE
    assert type(found[9]) is FileNotFoundError
    for number in (0, 1, 2):
        error = found[number]
        assert isinstance(error, PayloadError)
        assert f"message_{number}.json" in str(error)
        assert "plantedsecret" not in repr((error, error.__context__, error.__cause__))


def test_a_redacted_version_must_be_a_message(layout):
    layout.create_message("s", "a", 0, {**MESSAGE, "redact_message": "gone"})

    with pytest.raises(PayloadError, match="message_0"):
        layout.read_message("s", "a", 0)


def test_lone_surrogates_are_kept_in_escapes(layout, storage):
    document = {**MESSAGE, "redact_message": {"role": "user", "content": [{"text": "\ud800é"}]}}

    layout.create_message("s", "a", 0, document)

    assert layout.read_message("s", "a", 0) == document
    with storage.open(f"some/where/{MESSAGES}/message_0.json") as file:
        assert b"\\ud800\\u00e9" in file.read()


@pytest.mark.parametrize("bad", [{1, 2}, object()])
def test_what_is_no_json_is_refused(layout, bad):
    nested: Any = []
    for _ in range(100_000):
        nested = [nested]
    for value in (bad, nested):
        with pytest.raises(PayloadError):
            layout.create_session("s", {"value": value})
    assert layout.read_session("s") is None


def test_a_link_among_messages_is_refused_and_not_read(tmp_path):
    layout = Layout(FileSystemStorage(tmp_path))
    layout.create_agent("s", "a", {})
    # Reading it would never end.
    (tmp_path / MESSAGES / "message_0.json").symlink_to("/dev/zero")

    ((number, error),) = layout.read_messages("s", "a", [0])

    assert number == 0
    assert "symbolic link" in str(error)
