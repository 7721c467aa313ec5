"""Another process: ``python -m tests.adapters.strands.snapshots.process WORK [ARGUMENTS as JSON]``.

It prints one line of JSON, or ends by SIGKILL.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from typing import Any

import django

django.setup()

from strands.hooks import BeforeNodeCallEvent
from strands.multiagent import GraphBuilder, Swarm
from strands.session import SnapshotSessionManager

from django_agent_sessions.adapters.strands import DjangoStorage
from tests.adapters.strands.process import NODES, kill, node, outcome
from tests.adapters.strands.scripted import call

from .making import LATEST, build, immutable, message, saved


def orchestrator(kind: str, session_id: str) -> Any:
    manager = SnapshotSessionManager(session_id, storage=DjangoStorage())
    if kind == "swarm":
        agents = [
            node(
                name,
                call("handoff_to_agent", agent_name=following, message=f"from {name}"),
                f"{name} handed over",
            )
            for name, following in itertools.pairwise(NODES)
        ]
        return Swarm([*agents, node(NODES[-1])], id="swarm", session_manager=manager)
    builder = GraphBuilder()
    builder.set_graph_id("graph")
    builder.set_max_node_executions(9)
    builder.set_session_manager(manager)
    for name in NODES:
        builder.add_node(node(name), name)
    for one, next_one in itertools.pairwise(NODES):
        builder.add_edge(one, next_one)
    builder.set_entry_point(NODES[0])
    return builder.build()


def orchestrate(kind: str, session_id: str) -> dict[str, Any]:
    made = orchestrator(kind, session_id)
    return outcome(made, made("Go"))


def orchestrate_and_die(kind: str) -> None:
    """Dies before the last node starts."""
    made = orchestrator(kind, "s")
    made.hooks.add_callback(
        BeforeNodeCallEvent, lambda event: kill() if event.node_id == NODES[-1] else None
    )
    made("Go")


def converse_and_die() -> None:
    """Dies within its fourth turn, before anything of that is saved."""
    agent = build(choose=answer)
    for number in range(4):
        agent.state.set("last", str(number))
        agent(str(number))


def answer(messages: Any) -> str:
    if messages[-1]["content"][0]["text"] == "3":
        kill()
    return "answer"


def replica(name: str) -> dict[str, int]:
    """Goes on from what it restored, as if it were alone."""
    storage = DjangoStorage()
    messages = json.loads(asyncio.run(storage.read(LATEST)) or b"")["data"]["messages"]
    print("ready", flush=True)
    sys.stdin.readline()
    for turn in range(4):
        messages.append(message(f"{name} {turn}"))
        asyncio.run(storage.write(LATEST, saved(*messages)))
    return {"acknowledged": turn + 1}


def checkpoints(number: int) -> None:
    """Writes immutable snapshots of an agent that others write too."""
    storage = DjangoStorage()
    print("ready", flush=True)
    sys.stdin.readline()
    messages = []
    for turn in range(3):
        messages.append(message(f"{number} {turn}"))
        asyncio.run(storage.write(immutable(10 * number + turn), saved(*messages)))


if __name__ == "__main__":
    work = globals()[sys.argv[1]]
    print(json.dumps(work(*json.loads(sys.argv[2]))))
