"""How the examples of OpenAI's items and messages are written, and what they are read as."""

from __future__ import annotations

import base64
from typing import Any

from django_agent_sessions.content.dialects import Part, PartKind

TEXT, REASONING, UNKNOWN = PartKind.TEXT, PartKind.REASONING, PartKind.UNKNOWN
CALL, RESULT = PartKind.TOOL_CALL, PartKind.TOOL_RESULT
IMAGE, DOCUMENT = PartKind.IMAGE, PartKind.DOCUMENT

BASE64 = base64.b64encode(b"12345").decode()
PNG = f"data:image/png;base64,{BASE64}"
FILE = {"file_id": "file-1"}
TOOL = {"type": "function", "name": "weather", "parameters": {}, "strict": True}


def text(words: str) -> Part:
    return Part(TEXT, text=words)


def said(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": list(blocks)}


# name: (item, role, text, parts)
Example = tuple[dict[str, Any], str, str, tuple[Part, ...]]


def with_ids(examples: dict[str, Any]) -> dict[str, Any]:
    return {"argvalues": list(examples.values()), "ids": list(examples)}
