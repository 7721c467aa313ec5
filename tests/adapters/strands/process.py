"""Another process: ``python -m tests.adapters.strands.process WORK [ARGUMENTS as JSON]``.

It prints one line of JSON. Some kinds of work end by SIGKILL instead.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
from typing import Any

import django

django.setup()

from strands import Agent
from strands.hooks import AfterNodeCallEvent, BeforeNodeCallEvent, HookOrder
from strands.multiagent import GraphBuilder, Swarm
from strands.types.interrupt import InterruptResponseContent

from django_agent_sessions.adapters.strands import DjangoSessionManager

from .agents import build, requests, stored, texts
from .scripted import ScriptedModel, call
from .tools import approve

NODES = ("research", "write", "review")


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def node(name: str, *steps: Any) -> Agent:
    return Agent(
        model=ScriptedModel(steps or [f"{name} is done"]),
        name=name,
        tools=[approve],
        callback_handler=None,
    )


def graph(*, asking: str = "", manager: Any = None) -> Any:
    """Three nodes in a row; one of them may ask a person first."""
    builder = GraphBuilder()
    builder.set_graph_id("graph")
    builder.set_max_node_executions(9)
    builder.set_session_manager(manager or DjangoSessionManager("s"))
    for name in NODES:
        steps = [call("approve", what=name), f"{name} is done"] if name == asking else []
        builder.add_node(node(name, *steps), name)
    for one, next_one in itertools.pairwise(NODES):
        builder.add_edge(one, next_one)
    builder.set_entry_point(NODES[0])
    return builder.build()


def swarm() -> Swarm:
    """Three agents, each handing over to the next."""
    agents = [
        node(
            name,
            call("handoff_to_agent", agent_name=following, message=f"from {name}"),
            f"{name} handed over",
        )
        for name, following in itertools.pairwise(NODES)
    ]
    return Swarm([*agents, node(NODES[-1])], id="swarm", session_manager=DjangoSessionManager("s"))


def orchestrator(kind: str, asking: str = "") -> Any:
    return graph(asking=asking) if kind == "graph" else swarm()


def outcome(made: Any, result: Any) -> dict[str, Any]:
    agents = {name: n.executor for name, n in made.nodes.items()}
    order = result.execution_order if hasattr(result, "execution_order") else result.node_history
    return {
        "status": result.status.value,
        "order": [n.node_id for n in order],
        "said": {name: str(found.result).strip() for name, found in sorted(result.results.items())},
        "usage": dict(result.accumulated_usage),
        "calls": {name: len(requests(agent)) for name, agent in sorted(agents.items())},
        "interrupts": [i.id for i in result.interrupts],
    }


def orchestrate(kind: str, asking: str = "", answers: Any = None) -> dict[str, Any]:
    made = orchestrator(kind, asking)
    return outcome(made, made(answers or "Go"))


def go_on(asked: str, answers: Any) -> dict[str, Any]:
    """Goes on with a graph that was interrupted, with the answers of a person."""
    made = graph()
    found = outcome(made, made(answers))
    found["seen"] = {
        name: texts(requests(node.executor)[0][-1:])
        for name, node in made.nodes.items()
        if name == asked
    }
    return found


def orchestrate_and_die(kind: str, after: str = "", before: str = "") -> None:
    """Dies before a node starts, or when its end has been stored."""
    made = orchestrator(kind)
    made.hooks.add_callback(
        BeforeNodeCallEvent, lambda event: kill() if event.node_id == before else None
    )
    made.hooks.add_callback(
        AfterNodeCallEvent,
        lambda event: kill() if event.node_id == after else None,
        order=HookOrder.SDK_LAST,
    )
    made("Go")


def ask() -> dict[str, Any]:
    """Runs an agent until it asks a person."""
    agent = build(call("approve", what="delete"), "never reached")
    result = agent("Delete it")
    return {"stop": result.stop_reason, "interrupts": [i.id for i in result.interrupts or []]}


def answer(interrupt_id: str, response: str) -> dict[str, Any]:
    """Goes on with the answer of a person."""
    agent = build("It is done.")
    given: InterruptResponseContent = {
        "interruptResponse": {"interruptId": interrupt_id, "response": response}
    }
    result = agent([given])
    return {
        "stop": result.stop_reason,
        "requests": [texts(messages) for messages in requests(agent)],
        "stored": texts(stored()),
    }


def converse(*prompts: str) -> dict[str, Any]:
    agent = build(choose=add_then_answer)
    for prompt in prompts:
        agent(prompt)
    return {"messages": texts(agent.messages)}


def add_then_answer(messages: Any) -> Any:
    """Calls the tool for each prompt, then answers."""
    if any("toolResult" in block for block in messages[-1]["content"]):
        return "Done."
    return call("add", a=int(messages[-1]["content"][0]["text"]), b=1000)


if __name__ == "__main__":
    work = globals()[sys.argv[1]]
    arguments = json.loads(sys.argv[2]) if len(sys.argv) > 2 else []
    print(json.dumps(work(*arguments) if isinstance(arguments, list) else work(**arguments)))
