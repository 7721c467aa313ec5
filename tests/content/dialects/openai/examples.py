"""Examples of OpenAI's items and messages, and what they are read as.

A file has examples by name: the ``item``, and the ``role``, ``text`` and ``parts`` of its row.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from django_agent_sessions.content.dialects import Part, PartKind

UNKNOWN, RESULT = PartKind.UNKNOWN, PartKind.TOOL_RESULT


def text(words: str) -> Part:
    return Part(PartKind.TEXT, text=words)


def said(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": list(blocks)}


def examples(name: str) -> dict[str, tuple[dict[str, Any], str, str, tuple[Part, ...]]]:
    """The examples of a file by name: items, roles, texts and parts."""
    found = json.loads((Path(__file__).parent / f"{name}.json").read_text())
    return {
        title: (example["item"], example["role"], example["text"], _parts(example["parts"]))
        for title, example in found.items()
    }


def for_each(name: str) -> pytest.MarkDecorator:
    """Run a test with each example of a file."""
    found = examples(name)
    arguments = ("item", "role", "words", "expected")
    return pytest.mark.parametrize(arguments, list(found.values()), ids=list(found))


def _parts(values: list[dict[str, Any]]) -> tuple[Part, ...]:
    return tuple(
        Part(**{**value, "kind": PartKind(value["kind"]), "parts": _parts(value.get("parts", []))})
        for value in values
    )
