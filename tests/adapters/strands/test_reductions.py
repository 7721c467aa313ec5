"""What an agent held after a turn is restored, however its context was reduced.

The oracle is Strands' own ``SnapshotSessionManager``, which stores the whole agent after each turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from strands import Agent
from strands._context_manager.strategies.offload import Offload
from strands.agent.conversation_manager import (
    NullConversationManager,
    SlidingWindowConversationManager,
    SummarizingConversationManager,
)
from strands.hooks import AfterInvocationEvent, BeforeInvocationEvent, BeforeModelCallEvent
from strands.session.snapshot_session_manager import SnapshotSessionManager
from strands.storage.in_memory_storage import InMemoryStorage

from .agents import build, model_of, requests, stored, texts
from .scripted import Overflow, call

pytestmark = pytest.mark.django_db(transaction=True)

TURNS = 9
LONG = "a long text " * 60


def answers(turn: int) -> list[Any]:
    """What the model says in a turn: it calls a tool in each second turn."""
    if turn % 2:
        return [{**call("look", of=f"{turn}"), "toolUseId": f"call-{turn}"}, f"Found {turn}."]
    return [f"Answer {turn}. {LONG}"]


def edited_in_place(agent: Agent) -> None:
    """What applications do with the list: shorten, drop, insert and replace messages."""

    def shorten(event: BeforeModelCallEvent) -> None:
        for message in event.agent.messages[:-1]:
            for block in message["content"]:
                if "text" in block:
                    block["text"] = block["text"][:12]

    def drop(event: AfterInvocationEvent) -> None:
        held = event.agent.messages
        asked = [at for at, message in enumerate(held) if "text" in message["content"][0]]
        if len(held) > 6:
            held[: asked[-2]] = [{"role": "user", "content": [{"text": f"({len(held)} before)"}]}]

    agent.add_hook(shorten, BeforeModelCallEvent)
    agent.add_hook(drop, AfterInvocationEvent)


def cleared_before_each_run(agent: Agent) -> None:
    agent.add_hook(lambda event: event.agent.messages.clear(), BeforeInvocationEvent)


def plain(agent: Agent) -> None:
    """Nothing besides the strategy."""


def config(*strategies: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {"context_manager": {"strategies": list(strategies)}}


STRATEGIES: dict[str, tuple[Callable[[], dict[str, Any]], Callable[[Agent], None]]] = {
    "null": (lambda: {"conversation_manager": NullConversationManager()}, plain),
    "sliding": (lambda: {"conversation_manager": SlidingWindowConversationManager(4)}, plain),
    "sliding, pinned": (
        lambda: {"conversation_manager": SlidingWindowConversationManager(4, pin_first=1)},
        plain,
    ),
    "summarizing": (
        lambda: {
            "conversation_manager": SummarizingConversationManager(
                summary_ratio=0.5, preserve_recent_messages=2
            )
        },
        plain,
    ),
    "auto": (lambda: {"context_manager": "auto"}, plain),
    "agentic": (lambda: {"context_manager": "agentic"}, plain),
    "truncated results": (
        config(Offload.truncate("tool_results", {"preview_tokens": 10}).when(threshold=40)),
        plain,
    ),
    "truncated texts": (
        config(Offload.truncate("*", {"preview_tokens": 30}).when(threshold=80, preserve_recent=2)),
        plain,
    ),
    "dropped": (config(Offload.drop("*").when(utilization=0.3, preserve_recent=2)), plain),
    "dropped blocks": (
        config(Offload.drop("assistant_text").when(threshold=40, preserve_recent=1)),
        plain,
    ),
    "summarized": (
        config(Offload.summarize("*").when(utilization=0.3, preserve_recent=4)),
        plain,
    ),
    "edited in place": (
        lambda: {"conversation_manager": NullConversationManager()},
        edited_in_place,
    ),
    "edited beside a window": (
        lambda: {"conversation_manager": SlidingWindowConversationManager(6)},
        edited_in_place,
    ),
    "cleared": (lambda: {"context_manager": False}, cleared_before_each_run),
}


def without_random_parts(messages: list[Any]) -> list[Any]:
    """Leave out tracking ids and measured times, which differ between two runs."""

    def clean(value: Any) -> Any:
        if isinstance(value, dict):
            left_out = ("tracking_id", "metrics")
            return {key: clean(item) for key, item in value.items() if key not in left_out}
        if isinstance(value, list):
            return [clean(item) for item in value]
        if isinstance(value, str):
            return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "<id>", value)
        return value

    return [clean(message) for message in messages]


@pytest.mark.parametrize("name", STRATEGIES)
def test_nine_turns_restore_what_the_snapshot_manager_restores(name):
    options, prepare = STRATEGIES[name]
    storage = InMemoryStorage()

    def agent(**manager: Any) -> Agent:
        made = build(limit=1_000, **options(), **manager)
        prepare(made)
        return made

    def expected() -> Agent:
        return agent(session_manager=SnapshotSessionManager("s", storage=storage))

    for turn in range(TURNS):
        ours, theirs = agent(), expected()
        for one in (ours, theirs):
            model_of(one).steps += answers(turn)
            if turn in (4, 7) and name not in ("null", "edited in place", "cleared"):
                model_of(one).steps.insert(0, Overflow())
                if name in ("summarizing", "summarized", "auto", "agentic"):
                    model_of(one).steps.insert(1, f"Summary {turn}.")
            one(f"Question {turn}")

        again = agent()
        assert again.messages == ours.messages, turn
        oracle = expected()
        assert without_random_parts(again.messages) == without_random_parts(oracle.messages), turn
        manager_state = again.conversation_manager.get_state()
        assert without_random_parts([manager_state]) == without_random_parts(
            [oracle.conversation_manager.get_state()]
        )
        assert without_random_parts(requests(ours)) == without_random_parts(requests(theirs))

    said = " ".join(texts(stored()))
    for turn in range(TURNS):
        assert f"Question {turn}" in said
        assert (f"Found {turn}." if turn % 2 else f"Answer {turn}. {LONG}") in said
