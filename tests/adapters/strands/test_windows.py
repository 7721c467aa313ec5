"""What a conversation manager took out of an agent's memory stays out of it after a restore."""

from __future__ import annotations

import re
from typing import Any

import pytest
from strands import Agent
from strands.agent.conversation_manager import (
    ConversationManager,
    SlidingWindowConversationManager,
    SummarizingConversationManager,
)
from strands.agent.conversation_manager.compression.pin_message import pin_message
from strands.hooks import BeforeModelCallEvent

from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.models import Session, SessionMessage
from tests.processes import ROOT

from .agents import build, expect_real, model_of, requests, stored, texts
from .scripted import Overflow, call

pytestmark = pytest.mark.django_db(transaction=True)


def sliding(size: int, pin_first: int | None = None) -> ConversationManager:
    return SlidingWindowConversationManager(size, pin_first=pin_first)


def talk(agent: Agent, *prompts: str) -> Agent:
    for prompt in prompts:
        agent(prompt)
    return agent


def test_an_empty_window_restores_nothing_and_the_positions_go_on():
    talk(build("A.", "B.", conversation_manager=sliding(0)), "a", "b")
    assert texts(stored()) == ["a", "A.", "b", "B."]

    again = build("C.", conversation_manager=sliding(0))
    assert again.messages == []
    again("c")

    assert texts(requests(again)[0]) == ["c"]
    assert texts(stored()) == ["a", "A.", "b", "B.", "c", "C."]


def test_a_sliding_window_restores_what_was_in_memory():
    for turn in range(6):
        agent = build(f"answer {turn}", conversation_manager=sliding(4))
        agent(f"question {turn}")

        again = build(conversation_manager=sliding(4))
        assert texts(again.messages) == texts(agent.messages)
        assert len(again.messages) == min(4, 2 * turn + 2)

    assert len(stored()) == 12


@pytest.mark.parametrize("pin_first", [1, 2, 3])
@pytest.mark.parametrize("turns_a_process", [1, 2, 5])
def test_pinned_messages_are_restored_over_many_reductions(pin_first, turns_a_process):
    turn = 0
    for _ in range(8 // turns_a_process + 1):
        agent = build(conversation_manager=sliding(4, pin_first))
        for _ in range(turns_a_process):
            agent(f"question {turn}")
            turn += 1

        again = build(conversation_manager=sliding(4, pin_first))
        assert again.messages == agent.messages

    first = ["question 0", "You said: question 0", "question 1"][:pin_first]
    assert texts(again.messages)[:pin_first] == first
    assert texts(again.messages)[-1] == f"You said: question {turn - 1}"
    assert len(stored()) == 2 * turn


def test_a_message_pinned_by_hand_stays_pinned_in_another_process():
    agent = talk(build(conversation_manager=sliding(4)), "zero", "the one to keep", "two")
    index = texts(agent.messages).index("the one to keep")
    pin_message(agent.messages, index)
    talk(agent, "three")

    again = talk(build(conversation_manager=sliding(4)), "four", "five", "six")

    assert "the one to keep" in texts(again.messages)
    assert build(conversation_manager=sliding(4)).messages == again.messages


def test_a_pinned_tool_call_keeps_its_result():
    agent = build(call("add", a=1, b=2), "Three.", conversation_manager=sliding(4, pin_first=2))
    talk(agent, "1 + 2?", "b", "c", "d")

    again = build(conversation_manager=sliding(4, pin_first=2))

    assert again.messages == agent.messages
    assert texts(again.messages)[:3] == ["1 + 2?", "call add", "result 3"]
    expect_real(again.messages)


def test_what_another_process_said_meanwhile_is_restored_too():
    talk(build(conversation_manager=sliding(4)), "a", "b")
    one = build(conversation_manager=sliding(4))
    two = build(conversation_manager=sliding(4))
    talk(one, "c")
    talk(two, "d")

    again = build(conversation_manager=sliding(4))

    said = [text for prompt in "bcd" for text in (prompt, f"You said: {prompt}")]
    assert texts(again.messages) == said


class TestSummaries:
    def agent(self, *steps: Any, pin_first: int | None = None) -> Agent:
        manager = SummarizingConversationManager(
            summary_ratio=0.5, preserve_recent_messages=2, pin_first=pin_first
        )
        return build(*steps, conversation_manager=manager)

    def test_a_summary_stands_for_what_it_summarizes(self):
        agent = talk(self.agent("A.", "B."), "a", "b")
        model_of(agent).steps += [Overflow(), "The summary.", "C."]
        agent("c")

        again = self.agent("D.")
        assert texts(again.messages) == ["The summary.", *texts(stored())[2:]]
        assert again.messages == agent.messages
        again("d")
        assert texts(requests(again)[0])[0] == "The summary."
        assert texts(stored()) == ["a", "A.", "b", "B.", "c", "C.", "d", "D."]

    @pytest.mark.parametrize("pin_first", [None, 1, 2])
    def test_summaries_of_summaries(self, pin_first):
        for turn in range(5):
            agent = talk(self.agent(pin_first=pin_first), "one", "two", "three")
            model_of(agent).steps += [Overflow(), f"Summary {turn}.", "Fine."]
            agent("too long")

            again = self.agent(pin_first=pin_first)
            assert again.messages == agent.messages
            assert texts(again.messages).count(f"Summary {turn}.") == 1

        assert texts(again.messages)[: pin_first or 0] == texts(stored())[: pin_first or 0]
        assert len(stored()) == 5 * 8

    def test_the_window_is_stored_before_the_model_is_called_again(self):
        agent = talk(self.agent("A.", "B."), "a", "b")
        seen: list[list[str]] = []

        def look(event: BeforeModelCallEvent) -> None:
            # As a process would find it that takes over when this one dies now.
            seen.append(texts(self.agent().messages))

        agent.add_hook(look, BeforeModelCallEvent)
        model_of(agent).steps += [Overflow(), "The summary.", "C."]
        agent("c")

        assert seen == [["a", "A.", "b", "B.", "c"], ["The summary.", "b", "B.", "c"]]


def test_an_overflow_under_a_sliding_window():
    agent = talk(build(conversation_manager=sliding(40)), "a", "b")
    model_of(agent).steps += [Overflow(), "C."]
    agent("c")

    again = build(conversation_manager=sliding(40))

    assert texts(again.messages) == ["b", "You said: b", "c", "C."]
    assert again.messages == agent.messages
    assert SessionMessage.objects.count() == 6


def test_another_class_of_conversation_manager_is_refused_in_words_that_help():
    talk(build("A.", "B.", conversation_manager=sliding(2)), "a", "b")

    with pytest.raises(ConfigurationError) as refused:
        build(conversation_manager=SummarizingConversationManager())

    said = str(refused.value)
    assert str(Session.objects.get().pk) in said
    for word in (
        "'default'",
        "SlidingWindowConversationManager",
        "SummarizingConversationManager",
        "store.agents.update",
    ):
        assert word in said


def test_another_class_of_conversation_manager_is_taken_in_as_the_page_says():
    talk(build("A.", "B.", conversation_manager=sliding(2)), "a", "b")
    page = (ROOT / "docs" / "how-to" / "strands.md").read_text()
    (block,) = re.findall(r"```python\n([^`]*def with_another_manager.*?)```", page, re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(block, namespace)  # noqa: S102 - our own page
    namespace["with_another_manager"]("s", "default")

    again = build("C.", conversation_manager=SummarizingConversationManager())
    again("c")

    assert texts(requests(again)[0]) == ["a", "A.", "b", "B.", "c"]
    assert texts(stored()) == ["a", "A.", "b", "B.", "c", "C."]
    assert texts(build(conversation_manager=SummarizingConversationManager()).messages) == [
        *("a", "A.", "b", "B.", "c", "C.")
    ]
