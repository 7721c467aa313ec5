"""What the offline models say, by simple rules over the conversation they are given."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django_agent_sessions.content import dialects
from django_agent_sessions.content.dialects import Part, PartKind

_NAME = re.compile(r"\b(?:my name is|call me)\s+(\w[\w'’-]*)", re.IGNORECASE)
_CITY = re.compile(r"\b(?:in|of|to|for)\s+([A-Z]\w+(?: [A-Z]\w+)*)")
_DAY = re.compile(r"\b((?:mon|tues|wednes|thurs|fri|satur|sun)day)\b", re.IGNORECASE)
_CARD = re.compile(r"(?:\d[ -]?){13,19}")
# How a graph hands a node the results of those before it.
_PLAN = re.compile(r"^\s*- [^:\n]+: (.+)\Z", re.DOTALL | re.MULTILINE)


STORY = """\
**The lighthouse and the parcel**

A parcel came to the lighthouse on a Monday, with nobody's name on it. The keeper put it on the \
table, made tea, and looked at it for a while. It did not tick, and it did not smell of anything, \
so she let it be and went up to light the lamp.

- On Tuesday it had moved to the window.
- On Wednesday it was warm.
- On Thursday it hummed the tune that the keeper's mother used to sing.

On Friday a boat came by and asked whether a parcel had been left there by mistake. The keeper \
looked at the table, and at the window, and at the lamp, which shone brighter than it ever had. \
"No," she said, "nothing by mistake." And she put the kettle on for two.

If you liked it, ask for the weather next: `What is the weather in Lisbon?`"""
"""A long answer, to watch it come and to stop it."""

_THOUGHT = "There is no hurry in the question. What has no hurry is better slept on."


@dataclass(frozen=True)
class Call:
    """The model wants a tool to be called.

    Attributes:
        tool: The tool's name.
        arguments: Its arguments.
    """

    write_tool_call: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Considered:
    """The model thinks before it speaks.

    Attributes:
        thought: What it thinks.
        text: What it says then.
    """

    thought: str
    text: str


Step = str | Call | Considered
"""What a model does next: it says a text, calls a tool, or thinks and then says a text."""


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


Rules = Callable[[Sequence[Turn], Collection[str]], Step]
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
        Turn(dialects.get(dialect).summary(message).role, dialects.get(dialect).parts(message))
        for message in messages
    ]


def concierge(conversation: Sequence[Turn], tools: Collection[str]) -> Step:
    """Answers as the agent a user talks to.

    Args:
        conversation: The conversation so far.
        tools: Names of the tools there are.

    Returns:
        A text to say, perhaps with a thought before it, or a tool to call.
    """
    start = _last_question(conversation)
    results = [
        part
        for turn in conversation[start:]
        for part in turn.parts
        if part.kind is PartKind.TOOL_RESULT
    ]
    if results:
        return "\n".join(result.text or "Here it is." for result in results)
    question = conversation[start].text if start < len(conversation) else ""
    earlier = conversation[:start]
    asked = question.lower()
    if "story" in asked:
        return STORY
    if "think about" in asked:
        return Considered(_THOUGHT, "I thought about it: it can wait until tomorrow.")
    if not question and start < len(conversation):
        return _pictures(conversation[start])
    if found := _NAME.search(question):
        return f"Nice to meet you, {found[1]}."
    if "my name" in asked or "who am i" in asked:
        return _name(earlier)
    if "which cit" in asked:
        return _cities(earlier)
    if "map" in asked and "weather_map" in tools:
        city = _CITY.search(question)
        return Call("weather_map", {"city": city[1]}) if city else "A map of which city?"
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
        turn = conversation[index]
        if turn.role == "user" and (turn.text or _has_picture(turn)):
            return index
    return len(conversation)


def _has_picture(turn: Turn) -> bool:
    return any(part.kind is PartKind.IMAGE for part in turn.parts)


def _pictures(turn: Turn) -> str:
    count = sum(part.kind is PartKind.IMAGE for part in turn.parts)
    return f"Thank you for the {'picture' if count == 1 else f'{count} pictures'}."


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
