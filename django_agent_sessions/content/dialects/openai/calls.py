"""Parts for the tool calls of messages and items."""

from __future__ import annotations

from django_agent_sessions.content.dialects.arguments import parse_json
from django_agent_sessions.content.dialects.parts import Part, PartKind


def function_part(function: object, call_id: str) -> Part | None:
    """Return the part for a function call, or None if the value is invalid."""
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return None
    return call_part(function["name"], call_id, parse_json(function.get("arguments")))


def call_part(name: str, call_id: str, arguments: object, status: str = "") -> Part:
    """Return the part for a tool call."""
    return Part(PartKind.TOOL_CALL, name=name, call_id=call_id, status=status, data=arguments)
