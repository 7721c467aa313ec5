"""A process that has a conversation in memory while another one redacts it.

``python -m tests.adapters.strands.held agent|summary|graph``: it says the secret, prints ``ready``,
waits for a line, goes on, and prints as JSON what it still knows.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import django

django.setup()

from strands import Agent
from strands.agent.conversation_manager import SummarizingConversationManager
from strands.hooks import BeforeNodeCallEvent

from .agents import build, requests
from .process import graph
from .scripted import Overflow, call

SECRET = "plantedsecret 0815"


def wait() -> None:
    print("ready")
    sys.stdin.readline()


def report(agent: Agent, first: int) -> None:
    print(
        json.dumps(
            {
                "messages": agent.messages,
                "state": agent.state.get(),
                "heard": requests(agent)[first:],
                "manager": agent.conversation_manager.get_state(),
            }
        )
    )


def keep_talking() -> None:
    agent = build(f"I note {SECRET}.", call("add", a=1, b=2), "Three.", "Fine.")
    agent.state.set("note", {"said": [f"it is {SECRET}"]})
    agent(f"My code is {SECRET}")
    first = len(requests(agent))
    wait()
    agent.state.set("later", 1)
    agent("1 + 2?")
    agent.state.set("note", {**agent.state.get("note"), "more": True})
    agent("Good.")
    report(agent, first)


def summarizing() -> SummarizingConversationManager:
    return SummarizingConversationManager(summary_ratio=0.5, preserve_recent_messages=1)


def keep_a_summary() -> None:
    agent = build(
        f"I note {SECRET}.",
        "Yes.",
        Overflow(),
        f"SUMMARY with {SECRET}",
        "After.",
        "And after.",
        conversation_manager=summarizing(),
    )
    agent(f"My code is {SECRET}")
    agent("Is it noted?")
    agent("Go on")
    first = len(requests(agent))
    wait()
    agent("And on")
    report(agent, first)


def keep_a_graph() -> None:
    made = graph()
    made.nodes["research"].executor.model.steps = [f"I found {SECRET}"]
    heard: list[Any] = []

    def pause(event: BeforeNodeCallEvent) -> None:
        if event.node_id == "write":
            wait()

    made.hooks.add_callback(BeforeNodeCallEvent, pause)
    made(f"Look for {SECRET}")
    heard += requests(made.nodes["review"].executor)
    print(json.dumps({"heard": heard, "state": made.serialize_state()}))


if __name__ == "__main__":
    {"agent": keep_talking, "summary": keep_a_summary, "graph": keep_a_graph}[sys.argv[1]]()
