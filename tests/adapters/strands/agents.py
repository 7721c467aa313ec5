"""Agents for tests: one line builds what a process would build anew."""

from __future__ import annotations

from typing import Any

from strands import Agent
from strands.agent import AgentResult
from strands.types.interrupt import InterruptResponseContent

from django_agent_sessions.adapters.strands import DjangoSessionManager
from django_agent_sessions.models import SessionMessage

from .scripted import ScriptedModel
from .tools import add, approve, look


def build(*steps: Any, session_id: str = "s", **options: Any) -> Agent:
    """Builds an agent as a new process would.

    Args:
        *steps: What its model says.
        session_id: The session.
        **options: For the agent, the manager (``on_conflict``, ``owner``) or the model (``choose``,
            ``stateful``, ``delay``, ``limit``).
    """
    of_manager = {name: options.pop(name) for name in ("on_conflict", "owner") if name in options}
    of_model = {
        name: options.pop(name)
        for name in ("choose", "stateful", "delay", "limit")
        if name in options
    }
    if "session_manager" not in options:
        options["session_manager"] = DjangoSessionManager(session_id, **of_manager)
    return Agent(
        model=ScriptedModel(steps, **of_model),
        tools=[add, approve, look],
        callback_handler=None,
        **options,
    )


def model_of(agent: Agent) -> ScriptedModel:
    """The scripted model of an agent."""
    assert isinstance(agent.model, ScriptedModel)
    return agent.model


def manager_of(agent: Agent) -> DjangoSessionManager:
    """The session manager of an agent."""
    assert isinstance(agent._session_manager, DjangoSessionManager)
    return agent._session_manager


def requests(agent: Agent) -> list[list[Any]]:
    """The messages of each call of an agent's model."""
    return model_of(agent).requests


def texts(messages: Any) -> list[str]:
    """What messages say, tool calls and results in short."""
    return [" ".join(map(_text, message["content"])) for message in messages]


def _text(block: Any) -> str:
    if "toolUse" in block:
        return f"call {block['toolUse']['name']}"
    if "toolResult" in block:
        return f"result {' '.join(map(_text, block['toolResult']['content']))}"
    return str(block.get("text", block))


def stored(session_id: str = "s", agent_id: str = "default") -> list[Any]:
    """The payloads of a conversation, in order of their positions, which must be dense."""
    found = SessionMessage.objects.filter(
        session__session_id=session_id, agent__agent_id=agent_id
    ).order_by("message_id")
    rows = list(found.values_list("message_id", "message"))
    assert [position for position, _ in rows] == list(range(len(rows)))
    return [payload for _, payload in rows]


def expect_valid(messages: Any) -> None:
    """Asserts what every model provider does: each tool call is followed by its result."""
    for index, message in enumerate(messages):
        called = {b["toolUse"]["toolUseId"] for b in message["content"] if "toolUse" in b}
        follower = messages[index + 1]["content"] if index + 1 < len(messages) else []
        answered = {b["toolResult"]["toolUseId"] for b in follower if "toolResult" in b}
        assert called == answered, f"message {index} calls {called}, the next answers {answered}"


def expect_real(messages: Any) -> None:
    """Asserts that a conversation is valid, and by real results, not by stand-ins."""
    expect_valid(messages)
    assert "interrupted" not in " ".join(texts(messages))


def yes_to(result: AgentResult) -> list[InterruptResponseContent]:
    """The answer of a person to what an agent asked."""
    assert result.interrupts
    return [
        {"interruptResponse": {"interruptId": interrupt.id, "response": "yes"}}
        for interrupt in result.interrupts
    ]
