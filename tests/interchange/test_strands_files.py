from __future__ import annotations

from typing import Any

import pytest
from django.core.files.storage import FileSystemStorage

from django_agent_sessions.adapters.strands import DjangoSessionManager
from django_agent_sessions.interchange import import_sessions
from django_agent_sessions.interchange.strands_export import export_strands_files
from django_agent_sessions.interchange.strands_files import StrandsFiles
from django_agent_sessions.interchange.strands_layout import Layout
from django_agent_sessions.models import Session, SessionAgent, SessionMessage, SessionMultiAgent
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import AgentState
from tests.adapters.strands.layouts import Bucket, Directory, agent, graph, normalised, swarm
from tests.adapters.strands.scripted import Redact, call
from tests.models.test_fields import set_raw
from tests.sealed import update_content

pytestmark = pytest.mark.django_db(transaction=True)

PREFIX = "sessions"
IMAGE: Any = {
    "image": {"format": "png", "source": {"bytes": b"\x89PNG\r\n\x1a\n" + bytes(range(256))}}
}


@pytest.fixture(params=["directory", "bucket"])
def places(request, tmp_path) -> Any:
    """Makes empty places."""
    if request.param == "directory":
        names = iter("abc")
        return lambda: Directory(tmp_path / next(names))
    from tests.s3 import TestBucket, server

    return lambda: Bucket(TestBucket(server()))


@pytest.fixture
def directory(tmp_path) -> Directory:
    return Directory(tmp_path / "a")


def take(place: Directory) -> Any:
    return import_sessions(StrandsFiles(place.storage, PREFIX))


def give(place: Directory) -> list[Any]:
    layout = Layout(place.storage, PREFIX)
    return [
        skipped
        for session in Session.objects.all()
        for skipped in export_strands_files(session, layout)
    ]


def told(report: Any) -> list[tuple[str, str, bool]]:
    return [(skipped.place, skipped.reason, skipped.error) for skipped in report.skipped]


def converse(place: Directory) -> None:
    """Conversations with a tool, an image, a guardrail, two agents and orchestrators."""
    agent(place.strands("s"), call("add", a=2, b=3), "Five 🐇.")([{"text": "2 + 3?"}, IMAGE])
    agent(place.strands("s"), Redact("[blocked]"))("plantedsecret")
    agent(place.strands("s"), "hello", agent_id="b")("hi")
    graph(place.strands("g"))("make a plan")
    swarm(place.strands("w"))("make a plan")


# Over a second: agents run, on a server that speaks S3 too.
def test_conversations_of_the_sdks_own_managers_go_on_here(places):
    place = places()
    converse(place)
    before = {name: agent(place.strands("s"), agent_id=name).messages for name in ("a", "b")}

    report = take(place)

    assert (report.made, report.skips) == (3, 0)
    for name, messages in before.items():
        found = agent(DjangoSessionManager("s"), "and on", agent_id=name)
        assert found.messages == messages
        found("more")
        assert len(found.messages) == len(messages) + 2
    assert SessionMultiAgent.objects.get(kind="graph").multi_agent_id == "graph"
    assert take(place).unchanged == 3


# Over a second: agents run, on a server that speaks S3 too.
def test_what_was_exported_the_sdks_own_managers_go_on_with(places):
    place, other = places(), places()
    converse(place)
    take(place)

    assert sorted(skipped.place for skipped in give(other) if not skipped.error) == [
        "session 'g', nodes of graphs and swarms",
        "session 'w', nodes of graphs and swarms",
    ]

    assert normalised(other.files()) == {
        # Strands leaves the original of what a guardrail blocked in the file.
        name: text.replace("plantedsecret", "[blocked]")
        for name, text in normalised(place.files()).items()
    }
    for name in ("a", "b"):
        found = agent(other.strands("s"), "and on", agent_id=name)
        assert found.messages == agent(place.strands("s"), agent_id=name).messages
        found("more")
    # And back.
    Session.objects.all().delete()
    assert take(other).skips == 0
    assert agent(DjangoSessionManager("s")).messages[-1]["content"] == [{"text": "and on"}]


def test_of_what_a_guardrail_blocked_only_the_redacted_version_comes_in(directory):
    agent(directory.strands("s"), Redact("[blocked]"))("plantedsecret")
    name = "sessions/session_s/agents/agent_a/messages/message_0.json"
    assert b"redact_message" in directory.files()[name]

    take(directory)

    row = SessionMessage.objects.get(message_id=0)
    assert row.redact_message == row.message
    assert row.redacted_at is not None
    assert "plantedsecret" not in str(SessionMessage.objects.values())


def test_what_cannot_be_read_is_reported_and_survived(directory):
    for name in ("s", "corrupt", "headless", "stateless"):
        agent(directory.strands(name), "one", "two")("hi")
    graph(directory.strands("g"))("make a plan")
    root = directory.path / "sessions"
    messages = "session_s/agents/agent_a/messages"
    directory.put(f"sessions/{messages}/message_0.json", b'{"plantedsecret')
    directory.put(f"sessions/{messages}/message_abc.json", b"{}")
    directory.put("sessions/session_corrupt/session.json", b"[]")
    (root / "session_headless" / "session.json").unlink()
    directory.put("sessions/session_stateless/agents/agent_a/agent.json", b"")
    (root / "session_stateless/agents/agent_b").mkdir()
    directory.put("sessions/session_g/multi_agents/multi_agent_graph/multi_agent.json", b"x")
    (root / "session_s/agents/agent_a/messages/message_7.json").symlink_to("/etc/hostname")
    directory.put("sessions/notes/x.txt", b"")

    report = take(directory)

    assert [entry[0] for entry in told(report)] == [
        "sessions/notes",
        "session_corrupt",
        "session_g/multi_agents/multi_agent_graph",
        "session_headless",
        "sessions/session_s/agents/agent_a/messages/message_abc.json",
        "session_s/agents/agent_a/messages/message_0.json",
        "session_s/agents/agent_a/messages/message_7.json",
        "session_stateless/agents/agent_a/agent.json",
        "session_stateless/agents/agent_b",
    ]
    assert [place for place, _, error in told(report) if not error] == [
        "sessions/notes",
        "sessions/session_s/agents/agent_a/messages/message_abc.json",
    ]
    assert "plantedsecret" not in str(report)
    assert sorted(Session.objects.values_list("session_id", flat=True)) == ["g", "s", "stateless"]
    # Dense, and the conversation of an agent whose state is lost is there.
    stored = SessionMessage.objects.filter(session__session_id="s")
    assert list(stored.values_list("message_id", flat=True)) == [0]
    assert SessionMessage.objects.filter(session__session_id="stateless").count() == 2


def test_an_export_leaves_out_what_the_files_cannot_hold(directory, store):
    session = store.open("s")
    strands = store.agents.create(session, "a", dialect="strands")
    store.append(strands, {"role": "user", "content": [{"text": "hi"}]})
    SessionMessage.objects.create(
        session_id=session.id, agent_id=strands.id, branch=1, message_id=0, message={}
    )
    store.append(store.agents.create(session, "chat"), {"role": "user", "content": "hi"})
    store.agents.create(session, "a/b", dialect="strands")
    window = {"kept": [], "tail": 1}
    update_content(SessionAgent.objects.filter(agent_id="a"), {"window": window})
    store.agents.update(
        strands,
        AgentState(
            conversation_manager_state={"removed_message_count": 9},
            window={"kept": [], "tail": 1},
        ),
    )

    skipped = give(directory)

    assert [(entry.place, entry.reason, entry.error) for entry in skipped] == [
        (
            "session 's', agent 'a', branch 1",
            "the file layout can store only the main branch",
            False,
        ),
        ("session 's', agent 'chat'", "its messages are in the format openai", False),
        (
            "session 's', agent 'a/b'",
            "agent_id must not contain path separators in the file layout",
            True,
        ),
    ]
    layout = Layout(directory.storage, PREFIX)
    document = layout.read_agent("s", "a")
    # In Strands' words: how many messages the agent does not hold any more.
    assert document is not None
    assert document["conversation_manager_state"] == {"removed_message_count": 1}


def test_what_is_corrupt_here_is_left_out_of_the_files_and_told(directory, store):
    session = store.open("s")
    agent_ = store.agents.create(session, "a", dialect="strands")
    said = [{"role": "user", "content": [{"text": text}]} for text in ("one", "two")]
    store.append_many(agent_, said)
    store.multi_agents.create(session, "g", {})
    set_raw(0, "{")
    corrupt = CorruptPayload("{")
    SessionAgent.objects.update(state=corrupt, window=corrupt)
    SessionMultiAgent.objects.update(state=corrupt)

    assert [skipped.place for skipped in give(directory)] == [
        "session 's', agent 'a', state",
        "session 's', agent 'a', window",
        "session 's', agent 'a', message 0",
        "session 's', orchestrator 'g'",
    ]
    assert Layout(directory.storage, PREFIX).message_numbers("s", "a") == [1]


def test_an_export_overwrites_nothing_and_one_that_was_killed_is_none(directory, store):
    session = store.open("s")
    agent_ = store.agents.create(session, "a", dialect="strands")
    store.append(agent_, {"role": "user", "content": [{"text": "hi"}]})
    export = export_strands_files(Session.objects.get(), Layout(directory.storage, PREFIX))
    SessionMessage.objects.create(
        session_id=session.id, agent_id=agent_.id, branch=1, message_id=0, message={}
    )
    next(export)
    del export
    # Written in part: no session for Strands, nor for an import.
    assert take(directory).made == 0

    give(directory)
    before = directory.files()

    with pytest.raises(Exception, match="a session with this id already exists"):
        give(directory)
    assert directory.files() == before


def test_an_image_that_is_in_a_storage_here_is_in_the_files(directory, settings, tmp_path):
    settings.STORAGES = {
        **settings.STORAGES,
        "blobs": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": str(tmp_path / "blobs")},
        },
    }
    settings.AGENT_SESSIONS = {"BLOB_STORAGE": "blobs", "BLOB_MIN_BYTES": 100}
    agent(DjangoSessionManager("s"), "a picture")([{"text": "What is it?"}, IMAGE])
    assert FileSystemStorage(tmp_path / "blobs").listdir("")[0]

    assert give(directory) == []

    found = agent(directory.strands("s")).messages
    assert found[0]["content"][1] == IMAGE
    assert found == agent(DjangoSessionManager("s")).messages
    assert SessionStore().get("s").session_id == "s"


def test_a_storage_that_fails_for_a_moment_makes_no_gap(directory):
    manager = directory.strands("s")
    talk = agent(manager)
    for number in range(70):
        talk(str(number))

    class Failing(FileSystemStorage):
        """Fails once for one file, after some were read."""

        failed = False

        def _open(self, name, mode="rb"):
            if name.endswith("message_100.json") and not Failing.failed:
                Failing.failed = True
                raise ConnectionError("plantedsecret")
            return super()._open(name, mode)  # type: ignore[misc] # the stubs lack it

    source = StrandsFiles(Failing(directory.path), PREFIX)

    report = import_sessions(source, batch=10)

    assert (report.left_out, report.errors) == (1, 1)
    assert "message_100.json cannot be read: ConnectionError" in report.skipped[0].reason
    assert SessionMessage.objects.count() == 100

    report = import_sessions(source, batch=10)

    assert (report.continued, report.skips) == (1, 0)
    assert agent(DjangoSessionManager("s")).messages == agent(directory.strands("s")).messages
