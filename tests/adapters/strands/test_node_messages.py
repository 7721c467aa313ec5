"""What the nodes of graphs and swarms say is transcript."""

from __future__ import annotations

import asyncio
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from strands.hooks import BeforeNodeCallEvent
from strands.multiagent import GraphBuilder
from strands.session.repository_session_manager import RepositorySessionManager
from strands.session.snapshot_session_manager import SnapshotSessionManager

from django_agent_sessions.adapters.strands import (
    DjangoSessionManager,
    DjangoSessionRepository,
    DjangoStorage,
)
from django_agent_sessions.exceptions import ConfigurationError, LegalHoldError
from django_agent_sessions.governance.legal_hold import hold
from django_agent_sessions.governance.redaction import (
    Block,
    Find,
    Scope,
    Span,
    WholeMessage,
    aredact,
    redact,
)
from django_agent_sessions.models import Session, SessionAgent, SessionMessage, SessionMultiAgent
from django_agent_sessions.queries.search import find_sessions
from django_agent_sessions.store import SessionStore
from django_agent_sessions.testing import columns_containing
from tests.texts import text_of, with_text

from .agents import build
from .process import graph, node, orchestrator
from .traffic import watched

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "plantedsecret"
SAID = [
    ("graph/task", "user", "Go"),
    ("graph/research", "assistant", "research is done"),
    ("graph/write", "assistant", "write is done"),
    ("graph/review", "assistant", "review is done"),
]


def transcript(session_id: str = "s") -> list[tuple[str, str, str]]:
    rows = SessionMessage.objects.filter(session__session_id=session_id).order_by("id")
    return [(row.agent.agent_id, row.role, text_of(row)) for row in rows]


def pair(*steps: Any, inner: Any = None, manager: Any = None) -> Any:
    """A node that says something, and one after it, which may be a graph."""
    builder = GraphBuilder()
    builder.set_graph_id("outer")
    builder.set_max_node_executions(9)
    builder.set_session_manager(manager or DjangoSessionManager("s"))
    builder.add_node(node("first", *steps), "first")
    builder.add_node(inner or node("second"), "second")
    builder.add_edge("first", "second")
    builder.set_entry_point("first")
    return builder.build()


def alone(name: str, *steps: Any, manager: Any = None) -> Any:
    builder = GraphBuilder()
    builder.set_graph_id("inner")
    builder.set_max_node_executions(9)
    if manager is not None:
        builder.set_session_manager(manager)
    builder.add_node(node(name, *steps), name)
    builder.set_entry_point(name)
    return builder.build()


def export(*arguments: str, **options: Any) -> None:
    call_command("agent_sessions_export", *arguments, everybody=True, reason="Backup", **options)


@pytest.mark.parametrize("kind", ["graph", "swarm"])
def test_what_the_nodes_said_is_in_the_session_by_node(kind):
    orchestrator(kind)("Go")

    end = "is done" if kind == "graph" else "handed over"
    assert transcript() == [
        (f"{kind}/task", "user", "Go"),
        (f"{kind}/research", "assistant", f"research {end}"),
        (f"{kind}/write", "assistant", f"write {end}"),
        (f"{kind}/review", "assistant", "review is done"),
    ]
    assert Session.objects.get().message_count == 4
    assert find_sessions("write", sessions=Session.objects.all(), content=True).sessions


def test_what_an_earlier_run_said_stays():
    made = graph()
    made("Go")
    made("Go")
    graph()("Go again")

    # A scripted node that has said its steps echoes.
    again = [
        (agent, role, f"You said: {text}" if role == "assistant" else text)
        for agent, role, text in SAID
    ]
    said = transcript()
    assert said[:4] == SAID
    assert [row[:2] for row in said[4:8]] == [row[:2] for row in again]
    assert said[8:] == [("graph/task", "user", "Go again"), *SAID[1:]]
    assert len(said) == Session.objects.get().message_count == 12


@pytest.mark.parametrize("save", ["node", "invocation"])
def test_snapshots_of_a_graph_have_a_transcript(save):
    for _ in range(2):
        storage = DjangoStorage()
        manager = SnapshotSessionManager("s", storage=storage, multi_agent_save_latest_on=save)
        graph(manager=manager)("Go")

    assert transcript() == [*SAID, *SAID]
    assert Session.objects.get().message_count == 8


def test_the_manager_of_strands_on_the_repository_has_a_transcript():
    for _ in range(2):
        graph(manager=RepositorySessionManager("s", DjangoSessionRepository()))("Go")

    assert transcript() == [*SAID, *SAID]


def test_the_nodes_of_a_graph_in_a_graph_are_named_by_both():
    pair("one", inner=alone("leaf", "two"))("Go")

    assert transcript() == [
        ("outer/task", "user", "Go"),
        ("outer/first", "assistant", "one"),
        ("outer/second/leaf", "assistant", "two"),
    ]


def test_a_graph_in_a_graph_with_a_manager_of_its_own_says_nothing_twice():
    inner = alone("leaf", "two", manager=DjangoSessionManager("s"))
    pair("one", inner=inner)("Go")

    said = [row for row in transcript() if row[1] == "assistant"]
    assert said == [("outer/first", "assistant", "one"), ("inner/leaf", "assistant", "two")]


def test_a_failed_write_is_made_up_for():
    made = graph()

    def fails(sql: str) -> Exception | None:
        is_message = "INSERT INTO" in sql and SessionMessage._meta.db_table in sql
        return RuntimeError("no message") if is_message else None

    with watched() as traffic:
        traffic.failing = fails
        with pytest.raises(Exception, match="no message"):
            made("Go")

    # Neither the state nor a message was written; the next run writes both.
    assert transcript() == []
    assert SessionMultiAgent.objects.get().state["node_results"] == {}
    assert graph()("Go").status.value == "completed"
    assert transcript() == SAID


def test_a_run_takes_few_statements():
    made = graph()
    with watched() as traffic:
        made("Go")
        first = len(traffic.taken())
        made("Go")
        again = len(traffic.taken())

    # MariaDB locks the session's row before it appends.
    assert (first, again) == ((33, 29) if connection.vendor == "mysql" else (25, 21))


def test_a_state_without_news_is_written_in_one_statement():
    made = graph()
    made.state.execution_count = 7
    with watched() as traffic:
        made.session_manager.sync_multi_agent(made)

        assert len(traffic.taken()) == 1


def test_no_agent_continues_the_conversation_of_a_node():
    graph()("Go")

    # Strands allows no such id; another SDK does.
    store = SessionStore()
    agent = store.agents.find(store.get("s"), "graph/research")
    assert agent is not None
    assert agent.dialect == "strands-node"
    with pytest.raises(ConfigurationError, match="strands-node"):
        DjangoSessionRepository().read_message("s", "graph/research", 0)


def test_loading_ahead_does_not_read_what_nodes_said():
    graph()("Go")
    build("Hello", agent_id="helper")("Hi")

    with watched() as traffic:
        manager = asyncio.run(DjangoSessionManager.load("s"))
        statements = traffic.taken()

    assert list(manager._work.loaded_agents or {}) == ["helper"]
    # The session with its agents, the messages of one, and the orchestrators.
    assert len(statements) == 3


def test_a_fork_has_what_nodes_said_and_goes_on_by_itself():
    graph()("Go")
    store = SessionStore()
    fork = store.sessions.fork(store.get("s"), session_id="fork")

    assert transcript("fork") == SAID
    graph(manager=DjangoSessionManager("fork"))("Go")
    assert transcript("fork") == [*SAID, *SAID]
    assert transcript() == SAID
    assert SessionStore().get("fork").usage.messages == fork.usage.messages + 4


@pytest.mark.parametrize("scope", ["text", "message", "block", "span"])
def test_a_redaction_reaches_both_the_message_and_the_state(scope):
    made = pair(f"one {SECRET}")
    made("Go")
    (row,) = with_text(SECRET)
    path = ("content", 0)
    scopes: dict[str, Scope] = {
        "text": Find(SECRET),
        "message": WholeMessage(row.pk),
        "block": Block(row.pk, path),
        "span": Span(row.pk, path, 4, 4 + len(SECRET)),
    }
    found = redact(row.session_id, scopes[scope], reason="A request", dry_run=True)
    assert {hit.place.kind for hit in found.hits} >= {"message"}

    redact(row.session_id, scopes[scope], reason="A request")

    assert columns_containing(SECRET) == []
    assert [text for _, _, text in transcript()][0::2] == ["Go", "second is done"]
    # A graph in memory notices it, too, and brings nothing back.
    made("Go on")
    assert columns_containing(SECRET) == []
    assert SECRET not in str(made.serialize_state())


def test_a_redacted_task_is_redacted_in_the_state():
    pair("one")(f"Go to {SECRET}")
    (row,) = with_text(SECRET)
    redact(row.session_id, WholeMessage(row.pk), reason="A request")

    assert columns_containing(SECRET) == []
    assert pair("one")("Go").status.value == "completed"


def test_a_legal_hold_keeps_the_state_and_refuses_the_redaction():
    graph()("Go")
    (row,) = with_text("write is done")
    hold(row.session_id, reason="A case", actor=None)

    with pytest.raises(LegalHoldError, match="under legal hold"):
        redact(row.session_id, WholeMessage(row.pk), reason="A request")
    assert transcript() == SAID


def test_a_redaction_during_the_run_doubles_nothing():
    made = graph()

    async def redact_first(event: BeforeNodeCallEvent) -> None:
        if event.node_id == "write":
            session = await SessionStore().aget("s")
            await aredact(session.id, Find("research"), reason="A request")

    made.hooks.add_callback(BeforeNodeCallEvent, redact_first)
    made("Go")

    assert [text for _, _, text in transcript()] == [
        "Go",
        "[REDACTED] is done",
        "write is done",
        "review is done",
    ]


def test_names_that_no_agent_can_have_are_written_differently():
    names = ["x" * 300, "a\x07b", "."]
    for name in names:
        alone_in = GraphBuilder()
        alone_in.set_graph_id("g")
        alone_in.set_max_node_executions(3)
        alone_in.set_session_manager(DjangoSessionManager("s"))
        alone_in.add_node(node("n", "said"), name)
        alone_in.set_entry_point(name)
        alone_in.build()("Go")

    agents = list(SessionAgent.objects.order_by("id").values_list("agent_id", flat=True))
    assert len(agents) == 4
    assert agents[3] == "g/."
    assert all(len(agent) <= 255 and agent.isprintable() for agent in agents)
    assert len(with_text("said")) == 3


def test_images_of_nodes_are_bytes():
    state = {
        "type": "graph",
        "status": "completed",
        "node_results": {},
        "current_task": [
            {"text": "Look"},
            {
                "image": {
                    "format": "png",
                    "source": {"bytes": {"__bytes_encoded__": True, "data": "iVBORw0KGgo="}},
                }
            },
        ],
    }
    store = SessionStore()
    store.multi_agents.create(store.open("s"), "g", state, kind="graph")

    (message,) = SessionMessage.objects.values_list("message", flat=True)
    assert message["content"][1]["image"]["source"]["bytes"] == b"\x89PNG\r\n\x1a\n"
    found = store.multi_agents.find(store.get("s"), "g")
    assert found is not None
    assert found.state == state


def test_the_export_of_messages_has_the_transcript_once(tmp_path):
    graph()("Go")
    lines = StringIO()
    export("jsonl", stdout=lines)
    file = tmp_path / "sessions.jsonl"
    file.write_text(lines.getvalue())
    Session.objects.all().delete()
    call_command("agent_sessions_import", "jsonl", str(file), stdout=StringIO())

    assert transcript() == SAID
    assert Session.objects.get().message_count == 4
    assert SessionMultiAgent.objects.get().state["current_task"] == "Go"


def test_an_import_of_the_files_of_strands_has_what_the_state_says(tmp_path):
    graph()("Go")
    export("strands-files", str(tmp_path), stdout=StringIO())
    Session.objects.all().delete()
    call_command("agent_sessions_import", "strands-files", str(tmp_path), stdout=StringIO())

    assert transcript() == SAID
    assert Session.objects.get().message_count == 4


def test_an_unreadable_state_is_stored_all_the_same(caplog):
    store = SessionStore()
    session = store.open("s")
    for number, state in enumerate(
        [
            {"node_results": {"a": {"result": {"type": "agent_result"}}}},
            {"node_results": [1], "current_task": {"no": "task"}},
            {"node_results": {"a": None, "b": {"result": "x"}}},
            [1, 2],
            None,
        ]
    ):
        store.multi_agents.create(session, f"g{number}", state)
        store.multi_agents.update(session, f"g{number}", {"state": state})

    assert SessionMultiAgent.objects.count() == 5
    assert transcript() == []
    assert caplog.records == []


def test_messages_that_strands_did_not_number_are_told_apart_by_their_runs():
    store = SessionStore()
    session = store.open("s")

    def state(status: str, *nodes: str) -> dict[str, Any]:
        message = {"role": "assistant", "content": [{"text": "Fine."}]}
        results = {
            node: {"result": {"type": "agent_result", "message": {**message, "of": node}}}
            for node in nodes
        }
        return {"type": "graph", "status": status, "node_results": results, "current_task": "Go"}

    store.multi_agents.create(session, "g", state("executing", "a"), kind="graph")
    for step in (
        state("executing", "a", "b"),
        state("completed", "a", "b"),
        state("executing", "a"),
        state("completed", "a"),
    ):
        store.multi_agents.update(session, "g", step)

    assert [agent for agent, _, _ in transcript()] == [
        "g/task",
        "g/a",
        "g/b",
        "g/task",
        "g/a",
    ]
