from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import FileSystemStorage
from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.session import SnapshotSessionManager
from strands.storage import LocalFileStorage, S3Storage

from django_agent_sessions.adapters.strands import DjangoSessionManager
from django_agent_sessions.interchange import import_sessions
from django_agent_sessions.interchange.strands_snapshots import StrandsSnapshots
from django_agent_sessions.models import Session, SessionMultiAgent
from tests.adapters.strands.layouts import agent, graph
from tests.adapters.strands.scripted import call
from tests.s3 import bucket_fixture  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db(transaction=True)

IMAGE: Any = {"image": {"format": "png", "source": {"bytes": b"\x89PNG\r\n\x1a\n" + bytes(99)}}}


def converse(manager: Any) -> None:
    agent(manager("s"), call("add", a=2, b=3), "Five.")([{"text": "2 + 3?"}, IMAGE])
    agent(manager("s"), "hello", agent_id="b")("hi")
    graph(manager("g"))("make a plan")


def check(manager: Any, storage: Any, prefix: str) -> None:
    report = import_sessions(StrandsSnapshots(storage, prefix))

    assert (report.made, report.skips) == (2, 0)
    for name in ("a", "b"):
        before = agent(manager("s"), agent_id=name)
        found = agent(DjangoSessionManager("s"), agent_id=name)
        assert found.messages == before.messages
        assert found.state.get() == before.state.get()
    assert SessionMultiAgent.objects.get().multi_agent_id == "graph"
    assert import_sessions(StrandsSnapshots(storage, prefix)).unchanged == 2


def test_agents_go_on_from_their_latest_snapshot_in_a_directory(tmp_path):
    def manager(session_id: str) -> Any:
        storage = LocalFileStorage(str(tmp_path / "x"))
        return SnapshotSessionManager(session_id, storage=storage)

    converse(manager)

    check(manager, FileSystemStorage(tmp_path), "x")


def test_agents_go_on_from_their_latest_snapshot_in_a_bucket(bucket, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.endpoint)

    def manager(session_id: str) -> Any:
        storage = S3Storage(bucket.name, prefix="y", boto_session=bucket.session)
        return SnapshotSessionManager(session_id, storage=storage)

    converse(manager)

    check(manager, bucket.storage, "y/")


def test_all_messages_of_a_snapshot_are_restored_whatever_was_removed_before(tmp_path):
    def talk(manager: Any, *steps: Any) -> Any:
        window = SlidingWindowConversationManager(window_size=4)
        return agent(manager, *steps, conversation_manager=window)

    storage = LocalFileStorage(str(tmp_path))
    for number in range(5):
        manager = SnapshotSessionManager("s", storage=storage)
        talk(manager, f"answer {number}")(f"question {number}")
    before = talk(SnapshotSessionManager("s", storage=storage))
    assert before.conversation_manager.removed_message_count > 0

    import_sessions(StrandsSnapshots(FileSystemStorage(tmp_path)))

    assert talk(DjangoSessionManager("s")).messages == before.messages


def test_what_is_no_snapshot_is_reported_and_survived(tmp_path: Path):
    storage = LocalFileStorage(str(tmp_path))
    for name in ("a", "b", "c"):
        agent(SnapshotSessionManager("s", storage=storage), "hello", agent_id=name)("hi")
    scopes = tmp_path / "session" / "s" / "scopes" / "agent"
    (scopes / "a/snapshots/snapshot_latest.json").write_text('{"plantedsecret')
    (scopes / "b/snapshots/snapshot_latest.json").write_text('{"schema_version": "2.0"}')
    (tmp_path / "session" / "empty").mkdir()

    report = import_sessions(StrandsSnapshots(FileSystemStorage(tmp_path)))

    assert [skipped.place for skipped in report.skipped] == [
        "session 'empty'",
        "session/s/scopes/agent/a/snapshots/snapshot_latest.json",
        "session/s/scopes/agent/b/snapshots/snapshot_latest.json",
    ]
    assert "plantedsecret" not in str(report)
    assert Session.objects.get().agents.get().agent_id == "c"
