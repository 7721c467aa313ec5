"""Tools that scripted agents call."""

from __future__ import annotations

from typing import Any

from strands import ToolContext, tool


@tool(context=True)
def add(a: int, b: int, tool_context: ToolContext) -> str:
    """Add two numbers, and count that in the agent's state.

    Args:
        a: One.
        b: The other.
    """
    state = tool_context.agent.state
    state.set("sums", (state.get("sums") or 0) + 1)
    return str(a + b)


@tool(context=True)
def approve(what: str, tool_context: ToolContext) -> str:
    """Do what a person has to approve.

    Args:
        what: What to do.
    """
    answer: Any = tool_context.interrupt("approval", reason={"what": what})
    return f"{what}: {answer}"


@tool
def look(of: str) -> str:
    """Return a long text.

    Args:
        of: What it is about.
    """
    return f"All about {of}. " + "a long text " * 60
