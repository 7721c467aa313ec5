"""What the models of these tests say: it follows from the last thing that the user said.

A model waits at a *gate* until a file of the gate's name is there; the file ``NAME.waiting`` tells
that it does. Whoever tests opens it, from any process and any language.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django_agent_sessions.content import dialects
from django_agent_sessions.content.dialects import PartKind


@dataclass(frozen=True)
class Text:
    deltas: tuple[str, ...]


@dataclass(frozen=True)
class Thought:
    deltas: tuple[str, ...]


@dataclass(frozen=True)
class Call:
    write_tool_call: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Gate:
    name: str

    async def passed(self) -> None:
        await wait_at(self.name)


class Pause(Gate):
    """A short one that opens by itself."""

    async def passed(self) -> None:
        await asyncio.sleep(0.02)


class FailureError(RuntimeError):
    """What a provider says when it fails."""


Step = Text | Thought | Call | Gate | FailureError


def gates() -> Path:
    """Where the gates are."""
    return Path(os.environ["GATES"])


async def wait_at(gate: str) -> None:
    """Waits until somebody opens a gate."""
    (gates() / f"{gate}.waiting").touch()
    while not (gates() / gate).exists():  # noqa: ASYNC110 - another process opens it
        await asyncio.sleep(0.02)


def wait_here(gate: str) -> None:
    """The same, in a thread."""
    (gates() / f"{gate}.waiting").touch()
    while not (gates() / gate).exists():
        time.sleep(0.02)


def words(text: str) -> Text:
    return Text(tuple(re.findall(r"\S+\s*|\s+", text)))


def play(dialect: str, messages: Sequence[Any]) -> list[Step]:
    """Decides what a model says next."""
    read = [dialects.get(dialect).parts(message) for message in messages]
    asked, place = "", 0
    for number, (message, parts) in enumerate(zip(messages, read, strict=True)):
        texts = [part.text for part in parts if part.kind is PartKind.TEXT]
        if message.get("role") == "user" and texts:
            asked, place = "\n".join(texts), number
    later = [part for parts in read[place:] for part in parts]
    results = [part.text for part in later if part.kind is PartKind.TOOL_RESULT]
    if results:
        return [words(f"I looked: {' '.join(results)}")]
    order, _, rest = asked.partition(" ")
    match order:
        case "weather":
            return [words("Let me look. "), Call("weather", {"city": rest})]
        case "both":
            cities = rest.split()
            return [Call("weather", {"city": city}) for city in cities]
        case "think":
            return [Thought(("Hmm, ", rest)), words("I thought about it.")]
        case "wait":
            return [words("One "), Gate(rest), words("two.")]
        case "drip":
            return [step for _ in range(1000) for step in (words("Drip. "), Pause(""))]
        case "slow-tool":
            return [Call("slow", {"gate": rest})]
        case "broken-tool":
            return [Call("broken", {})]
        case "fail":
            return [words("One "), FailureError(f"the key sk-secret of {rest} is wrong")]
        case "fail-at-once":
            return [FailureError(f"the key sk-secret of {rest} is wrong")]
        case "long":
            # With a rest now and then, in which a reader on a busy machine keeps up.
            some = Text(("x" * 1000,) * 10)
            return [step for _ in range(int(rest) // 10) for step in (some, Pause(""))]
        case "recall":
            told = [part.text for parts in read for part in parts if part.text]
            return [words(f"I was told: {json.dumps(told)}")]
    return [words(f"You said: {asked}")]
