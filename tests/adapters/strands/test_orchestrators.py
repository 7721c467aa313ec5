"""Graphs and swarms: killed, resumed, interrupted, and counted once."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import Any

import pytest

from django_agent_sessions.adapters.strands import DjangoSessionManager
from django_agent_sessions.exceptions import SessionNotFoundError, UnreadableStateError
from django_agent_sessions.models import Session, SessionAgent, SessionMultiAgent
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.testing.base import run_in_threads
from tests import processes

from .process import graph, orchestrator, outcome
from .traffic import watched

pytestmark = pytest.mark.django_db(transaction=True)

PROCESS = "tests.adapters.strands.process"
ALL_SAID = {name: f"{name} is done" for name in ("research", "review", "write")}


def elsewhere(work: str, *arguments: Any) -> Any:
    """Does some work in another process, and returns what it found."""
    (lines,) = processes.outputs([processes.start(PROCESS, work, json.dumps(arguments))])
    return json.loads(lines[-1])


def killed(work: str, **arguments: Any) -> None:
    process = processes.start(PROCESS, work, json.dumps(arguments))
    _, errors = process.communicate(timeout=150)
    assert process.returncode == -signal.SIGKILL, errors


@pytest.mark.process
@pytest.mark.parametrize("death", [{"after": "research"}, {"before": "write"}])
@pytest.mark.parametrize("kind", ["graph", "swarm"])
def test_killed_after_the_first_node_another_process_ends_it(kind, death):
    uninterrupted = elsewhere("orchestrate", kind)
    Session.objects.all().delete()
    killed("orchestrate_and_die", kind=kind, **death)
    assert SessionMultiAgent.objects.get().state["completed_nodes" if kind == "graph" else "id"]

    resumed = elsewhere("orchestrate", kind)

    assert resumed["status"] == uninterrupted["status"] == "completed"
    assert resumed["order"] == uninterrupted["order"] == ["research", "write", "review"]
    assert resumed["said"] == uninterrupted["said"]
    assert resumed["usage"] == uninterrupted["usage"]
    assert uninterrupted["calls"]["research"] > 0
    assert resumed["calls"] == {**uninterrupted["calls"], "research": 0}
    assert SessionMultiAgent.objects.count() == 1
    session = Session.objects.get()
    assert session.input_tokens == uninterrupted["usage"]["inputTokens"]
    assert session.output_tokens == uninterrupted["usage"]["outputTokens"]


@pytest.mark.process
def test_killed_in_the_middle_of_a_node_that_node_alone_is_run_again():
    killed("orchestrate_and_die", kind="graph", before="review")

    resumed = elsewhere("orchestrate", "graph")

    assert resumed["calls"] == {"research": 0, "write": 0, "review": 1}
    assert resumed["said"] == ALL_SAID


@pytest.mark.process
def test_a_node_that_asks_a_person_is_answered_in_another_process():
    asked = elsewhere("orchestrate", "graph", "write")
    assert asked["status"] == "interrupted"
    assert asked["calls"] == {"research": 1, "write": 1, "review": 0}
    (interrupt,) = asked["interrupts"]

    answers = [{"interruptResponse": {"interruptId": interrupt, "response": "yes"}}]
    resumed = elsewhere("go_on", "write", answers)

    assert resumed["status"] == "completed"
    assert resumed["order"][-2:] == ["write", "review"]
    assert resumed["said"] == ALL_SAID
    assert resumed["calls"] == {"research": 0, "write": 1, "review": 1}
    assert resumed["seen"]["write"] == ["result write: yes"]
    session = Session.objects.get()
    # As Strands reports it: it forgets what an interrupted node spent before it was asked.
    assert session.input_tokens == resumed["usage"]["inputTokens"] == 30


@pytest.mark.parametrize("kind", ["graph", "swarm"])
def test_one_that_ended_starts_from_the_beginning(kind):
    first = orchestrator(kind)
    done = outcome(first, first("Go"))

    second = orchestrator(kind)
    again = outcome(second, second("Go"))

    assert again == done
    assert Session.objects.get().input_tokens == 2 * done["usage"]["inputTokens"]


def test_in_a_running_loop_loaded_ahead_nothing_is_asked_while_it_is_built():
    graph()("Go")

    async def run() -> tuple[list[str], Any]:
        manager = await DjangoSessionManager.load("s")
        with watched() as traffic:
            made = graph(manager=manager)
            built = traffic.taken()
        return built, await made.invoke_async("Go")

    built, result = asyncio.run(run())

    assert built == []
    assert result.status.value == "completed"


def test_a_state_that_did_not_change_costs_no_statement():
    made = graph()
    made("Go")
    manager = made.session_manager
    with watched() as traffic:
        manager.sync_multi_agent(made)

        assert traffic.taken() == []


def test_a_state_that_changed_is_written_by_a_sync():
    made = graph()
    made.state.execution_count = 7

    made.session_manager.sync_multi_agent(made)

    assert SessionMultiAgent.objects.get().state == made.serialize_state()
    assert made.serialize_state()["execution_count"] == 7


def test_two_processes_that_build_the_same_one_at_the_same_moment_share_it():
    made: list[Any] = []

    def another_is_faster(sql: str) -> None:
        if sql.startswith("INSERT") and SessionMultiAgent._meta.db_table in sql and not made:
            made.append("claimed")
            made.append(run_in_threads(graph)[0])

    with watched() as traffic:
        traffic.failing = another_is_faster
        made.append(graph())

    assert len(made) == 3
    assert SessionMultiAgent.objects.count() == 1
    assert made[2]("Go").status.value == "completed"


def test_direct_calls_store_and_restore():
    made = graph()
    made("Go")
    row = SessionMultiAgent.objects.get()

    assert row.kind == "graph"
    assert row.state == made.serialize_state()
    restored = graph()
    restored.session_manager.initialize_multi_agent(restored)
    assert SessionMultiAgent.objects.count() == 1


def test_the_agents_of_nodes_have_no_state():
    graph()("Go")

    agents = SessionAgent.objects.values_list("dialect", "state", "internal_state", "window")
    assert set(map(str, agents)) == {"('strands-node', {}, {}, None)"}


def test_the_session_of_somebody_else_is_not_found(ada, bob):
    graph(manager=DjangoSessionManager("s", owner=ada))

    with pytest.raises(SessionNotFoundError):
        graph(manager=DjangoSessionManager("s", owner=bob))


def test_a_deleted_one_is_not_made_again():
    made = graph()
    Session.objects.all().delete()

    with pytest.raises(Exception, match="was deleted"):
        made("Go")
    assert not Session.objects.exists()


def test_a_graph_with_a_corrupt_state_is_not_restored_and_loses_nothing():
    made = graph()
    made("Go")
    corrupt = CorruptPayload('{"plantedsecret')
    SessionMultiAgent.objects.update(state=corrupt)

    for _ in range(2):
        with pytest.raises(UnreadableStateError, match=r"orchestrator 'graph' .*corrupt \(state\)"):
            graph()
    ahead = asyncio.run(DjangoSessionManager.load("s"))
    for _ in range(2):
        with pytest.raises(UnreadableStateError, match="orchestrator 'graph'"):
            graph(manager=ahead)
    # It was restored before, and would replace what another process stored meanwhile.
    with pytest.raises(UnreadableStateError, match="orchestrator 'graph'"):
        made("Again")
    assert SessionMultiAgent.objects.get().state == corrupt
