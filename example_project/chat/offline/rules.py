"""What the offline models say, by simple rules over the conversation they are given."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django_agent_sessions import transcripts
from django_agent_sessions.transcripts import Part, PartKind

_NAME = re.compile(r"\b(?:my name is|call me)\s+(\w[\w'’-]*)", re.IGNORECASE)
_CITY = re.compile(r"\b(?:in|to|for)\s+([A-Z]\w+(?: [A-Z]\w+)*)")
_DAY = re.compile(r"\b((?:mon|tues|wednes|thurs|fri|satur|sun)day)\b", re.IGNORECASE)
_CARD = re.compile(r"(?:\d[ -]?){13,19}")
# How a graph hands a node the results of those before it.
_PLAN = re.compile(r"^\s*- [^:\n]+: (.+)\Z", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Call:
    """The model wants a tool to be called.

    Attributes:
        tool: The tool's name.
        arguments: Its arguments.
    """

    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Turn:
    """One message of the conversation.

    Attributes:
        role: Who speaks.
        parts: What was said, called or returned.
    """

    role: str
    parts: Sequence[Part]

    @property
    def text(self) -> str:
        """What was said in words."""
        return "\n".join(part.text for part in self.parts if part.kind is PartKind.TEXT)


Rules = Callable[[Sequence[Turn], Collection[str]], str | Call]
"""From a conversation and the names of the tools there are, to what the model does next."""


def turns(dialect: str, messages: Sequence[Any]) -> list[Turn]:
    """Reads the conversation as an SDK gives it to its model.

    Args:
        dialect: The SDK's message format.
        messages: Its messages.

    Returns:
        The conversation in neutral form.
    """
    return [
        Turn(transcripts.summary(dialect, message).role, transcripts.parts(dialect, message))
        for message in messages
    ]


def concierge(conversation: Sequence[Turn], tools: Collection[str]) -> str | Call:
    """Answers as the agent a user talks to.

    Args:
        conversation: The conversation so far.
        tools: Names of the tools there are.

    Returns:
        A text to say, or a tool to call.
    """
    start = _last_question(conversation)
    results = [
        part
        for turn in conversation[start:]
        for part in turn.parts
        if part.kind is PartKind.TOOL_RESULT
    ]
    if results:
        return "\n".join(result.text for result in results)
    question = conversation[start].text if start < len(conversation) else ""
    earlier = conversation[:start]
    asked = question.lower()
    if found := _NAME.search(question):
        return f"Nice to meet you, {found[1]}."
    if "my name" in asked or "who am i" in asked:
        return _name(earlier)
    if "which cit" in asked:
        return _cities(earlier)
    if "weather" in asked and "weather" in tools:
        city = _CITY.search(question)
        return Call("weather", {"city": city[1]}) if city else "The weather in which city?"
    if ("calendar" in asked or "appointment" in asked) and "calendar" in tools:
        day = _DAY.search(question)
        return Call("calendar", {"day": day[1]}) if day else "The appointments of which day?"
    if _CARD.search(question):
        return "I keep your card number for the booking."
    if "card" in asked:
        told = any(_CARD.search(turn.text) for turn in _said(earlier))
        return (
            "Yes, you gave me a card number."
            if told
            else "No, our conversation holds no card number."
        )
    return "I am a small offline model. Tell me your name and ask for it later, or ask for the " + (
        "weather in a city or your calendar on a day." if "calendar" in tools else "weather."
    )


def planner(conversation: Sequence[Turn], tools: Collection[str]) -> str:
    """Answers as the graph's first node: makes a plan.

    Args:
        conversation: The conversation so far.
        tools: Names of the tools there are.

    Returns:
        The plan.
    """
    city = _CITY.search(conversation[_last_question(conversation)].text)
    where = f"{city[1]}'s" if city else "the"
    return f"First {where} old town, then the river, in the evening music."


def writer(conversation: Sequence[Turn], tools: Collection[str]) -> str:
    """Answers as the graph's second node: makes a letter of the plan it is given.

    Args:
        conversation: The conversation so far.
        tools: Names of the tools there are.

    Returns:
        The letter.
    """
    plan = _PLAN.search(conversation[_last_question(conversation)].text)
    return f"Dear traveller: {plan[1].strip() if plan else 'Stay at home.'} Enjoy it!"


def tokens(text: str) -> int:
    """Estimates how many tokens a text has, as the offline models report it.

    Args:
        text: Any text.

    Returns:
        A quarter of its characters, and at least one.
    """
    return max(1, len(text) // 4)


def _last_question(conversation: Sequence[Turn]) -> int:
    for index in range(len(conversation) - 1, -1, -1):
        if conversation[index].role == "user" and conversation[index].text:
            return index
    return len(conversation)


def _said(conversation: Sequence[Turn]) -> Iterator[Turn]:
    for turn in reversed(conversation):
        if turn.role == "user":
            yield turn


def _name(earlier: Sequence[Turn]) -> str:
    for turn in _said(earlier):
        if found := _NAME.search(turn.text):
            return f"You told me that your name is {found[1]}."
    return "You have not told me your name."


def _cities(earlier: Sequence[Turn]) -> str:
    cities = [
        str(part.data["city"])
        for turn in earlier
        for part in turn.parts
        if part.kind is PartKind.TOOL_CALL and isinstance(part.data, dict) and "city" in part.data
    ]
    return f"You asked about {', '.join(cities)}." if cities else "You asked about no city yet."
