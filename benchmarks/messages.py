"""The messages that every store is given: 450 bytes of JSON each, as its SDK has them."""

from __future__ import annotations

import json
import random
from typing import Any

SIZE = 450
"""Bytes of a message as ``json.dumps`` writes it."""

Message = dict[str, Any]

_WORDS = (  # noqa: SIM905 - as a list it is three times as long
    "agent answer booking carefully checked customer database delivery email error from hotel "
    "invoice later message model monday number order payment please question refund reply "
    "schedule session thanks ticket today tool update weather which would yesterday"
).split()
_random = random.Random(450)


def openai_items(count: int) -> list[Message]:
    """Makes items as the OpenAI Agents SDK hands them to a session."""
    return [_openai(number) for number in range(count)]


def strands_messages(count: int) -> list[Message]:
    """Makes messages as Strands hands them to a session manager."""
    return [_strands(number) for number in range(count)]


def _openai(number: int) -> Message:
    item: Message = {"role": _role(number), "content": ""}
    item["content"] = _text(SIZE - len(json.dumps(item)))
    return item


def _strands(number: int) -> Message:
    message: Message = {"role": _role(number), "content": [{"text": ""}]}
    message["content"][0]["text"] = _text(SIZE - len(json.dumps(message)))
    return message


def _role(number: int) -> str:
    return "assistant" if number % 2 else "user"


def _text(length: int) -> str:
    words: list[str] = []
    size = 0
    while size < length:
        word = _random.choice(_WORDS)
        words.append(word)
        size += len(word) + 1
    return " ".join(words)[:length].ljust(length, ".")
