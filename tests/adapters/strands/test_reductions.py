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

from django_agent_sessions.db import bridge
from django_agent_sessions.exceptions import LegalHoldError
from django_agent_sessions.governance.legal_hold import hold
from django_agent_sessions.governance.redaction import Find, WholeMessage, redact
from django_agent_sessions.models import SessionAgent, SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.testing import columns_containing

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


SECRET = "plantedsecret 0815"


def truncating() -> dict[str, Any]:
    truncate = Offload.truncate("*", {"preview_tokens": 30})
    return config(truncate.when(threshold=80, preserve_recent=1))()


def with_a_reduced_secret(**options: Any) -> Agent:
    """An agent that holds the secret in a shortened message, and said it at its beginning."""
    agent = build(f"Noted: {SECRET}. {LONG}", "Fine.", limit=1_000, **truncating(), **options)
    agent("Note it.")
    agent("Go on.")
    assert "Truncated" in texts(agent.messages)[1]
    assert SECRET in texts(agent.messages)[1]
    return agent


def session() -> Any:
    return SessionStore().get("s").id


class TestRedactions:
    def test_a_text_is_removed_from_the_original_and_from_what_the_agent_holds(self):
        with_a_reduced_secret()
        assert "plantedsecret" in str(SessionAgent.objects.get().window)

        redact(session(), Find(SECRET), reason="A request")

        assert columns_containing("plantedsecret") == []
        again = build(limit=1_000, **truncating())
        assert texts(again.messages)[1].startswith("Noted: [REDACTED]. ")
        again("And now?")
        assert columns_containing("plantedsecret") == []

    def test_a_whole_message_is_removed_with_its_other_forms(self):
        with_a_reduced_secret()
        key = SessionMessage.objects.get(message_id=1).pk

        redact(session(), WholeMessage(key), reason="A request")

        assert columns_containing("plantedsecret") == []
        again = build(limit=1_000, **truncating())
        assert SECRET not in " ".join(texts(again.messages))
        assert len(again.messages) == 4

    def test_clearing_the_conversation_deletes_it_in_both_forms(self):
        with_a_reduced_secret()
        store = SessionStore()

        store.clear(store.agents.open(store.get("s"), "default"))

        assert columns_containing("plantedsecret") == []
        again = build("Fine.", limit=1_000, **truncating())
        assert again.messages == []
        again("And now?")
        assert build(limit=1_000, **truncating()).messages == again.messages

    def test_a_live_agent_does_not_write_it_again(self):
        agent = with_a_reduced_secret()

        redact(session(), Find(SECRET), reason="A request")
        agent("And now?")

        assert columns_containing("plantedsecret") == []
        assert SECRET not in str(requests(agent)[-1])
        assert build(limit=1_000, **truncating()).messages == agent.messages

    def test_a_restored_agent_that_never_saw_the_original_does_not_either(self):
        with_a_reduced_secret()
        agent = build("Fine.", limit=1_000, **truncating())
        assert "Truncated" in texts(agent.messages)[1]

        redact(session(), Find(SECRET), reason="A request")
        agent("And now?")

        assert columns_containing("plantedsecret") == []
        assert SECRET not in str(requests(agent)[-1])
        assert build(limit=1_000, **truncating()).messages == agent.messages

    def test_under_legal_hold_a_redaction_is_refused_and_the_agent_goes_on(self):
        with_a_reduced_secret()
        key = SessionMessage.objects.get(message_id=1).pk
        hold(session(), reason="A lawsuit")

        with pytest.raises(LegalHoldError):
            redact(session(), WholeMessage(key), reason="A request")

        again = build(limit=1_000, **truncating())
        again("Go on.")
        assert len(again.messages) == 6

    def test_a_summary_is_masked_that_only_the_agent_has(self):
        summarize = config(Offload.summarize("*").when(utilization=0.3, preserve_recent=2))
        agent = build(f"Noted: {SECRET}.", limit=200, **summarize())
        agent("Note it.")
        model_of(agent).steps += ["Fine.", f"They noted {SECRET}.", "Good."]
        agent("Go on. " + LONG[:240])
        agent("And now?")
        assert f"They noted {SECRET}." in str(agent.messages)
        assert build(limit=200, **summarize()).messages == agent.messages

        redact(session(), Find(SECRET), reason="A request")

        assert columns_containing("plantedsecret") == []
        assert "They noted [REDACTED]." in str(build(limit=200, **summarize()).messages)
        agent("And then?")
        assert columns_containing("plantedsecret") == []

    @pytest.mark.parametrize("strategy", ["conversation_manager", "context_manager"])
    def test_a_summary_that_was_made_during_the_redaction_is_stored_without_it(self, strategy):
        if strategy == "context_manager":
            summarize = config(Offload.summarize("*").when(utilization=0.99, preserve_recent=1))
        else:
            summarize = STRATEGIES["summarizing"][0]
        agent = build(f"Noted: {SECRET}.", "B.", limit=1_000, **summarize())
        agent("Note it.")
        agent("Go on.")
        model = model_of(agent)

        def choose(messages: Any) -> Any:
            model._choose = during_the_summary
            return Overflow()

        def during_the_summary(messages: Any) -> Any:
            model._choose = None
            assert SECRET in str(messages)
            bridge.run_sync(
                lambda: redact(session(), Find(SECRET), reason="A request"), using="default"
            )
            return f"They noted {SECRET}."

        model._choose = choose
        agent("And now?")

        assert columns_containing("plantedsecret") == []
        assert build(limit=1_000, **summarize()).messages == agent.messages
        if strategy == "conversation_manager":
            assert "They noted [REDACTED]." in str(agent.messages)
