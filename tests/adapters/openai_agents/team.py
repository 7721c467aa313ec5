"""Agents for tests: one line builds what a process would build anew."""

from __future__ import annotations

from typing import Any

from agents import Agent, TResponseInputItem, function_tool
from django.contrib.auth import get_user_model

from django_agent_sessions.db import bridge
from django_agent_sessions.models import SessionMessage

from .scripted import ScriptedModel, Step


@function_tool
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@function_tool(needs_approval=True)
async def pay(amount: int) -> str:
    """Pay an amount, once a person has approved it."""
    return f"paid {amount}"


@function_tool
def register(name: str) -> str:
    """Make a user, in a sync tool."""
    return f"registered {bridge.run_orm(_make_user, name)}"


@function_tool
async def aregister(name: str) -> str:
    """Make a user, in an async tool."""
    return f"registered {await bridge.arun_orm(_make_user, name)}"


def _make_user(name: str) -> str:
    return str(get_user_model().objects.create_user(name))


def assistant(*steps: Step, delay: float = 0, **options: Any) -> Agent[Any]:
    """Builds an agent with the tools above.

    Args:
        *steps: What its model says.
        delay: Seconds that each call of the model takes.
        **options: For the agent.
    """
    return Agent(
        **{"name": "assistant", **options},
        model=ScriptedModel(steps, delay=delay),
        tools=[add, pay, register, aregister],
    )


def requests(agent: Agent[Any]) -> list[list[TResponseInputItem]]:
    """The input of each call of an agent's model."""
    assert isinstance(agent.model, ScriptedModel)
    return agent.model.requests


def texts(items: Any) -> list[str]:
    """What items say, calls and outputs in short."""
    return [_text(item) for item in items]


def _text(item: Any) -> str:
    if item.get("type") == "function_call":
        return f"call {item['name']}"
    if item.get("type") == "function_call_output":
        return f"output {item['output']}"
    content = item["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def user(text: str) -> TResponseInputItem:
    """What a person says."""
    return {"role": "user", "content": text}


def stored(session_id: str = "s") -> list[Any]:
    """The payloads of a conversation, in order of their positions, which must be dense."""
    rows = SessionMessage.objects.filter(session__session_id=session_id).order_by("message_id")
    found = list(rows.values_list("message_id", "message"))
    assert [position for position, _ in found] == list(range(len(found)))
    return [message for _, message in found]
