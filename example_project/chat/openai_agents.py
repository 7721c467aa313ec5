"""The OpenAI agent of the chat: what a project would write."""

from __future__ import annotations

from typing import Any

from agents import Agent, RunConfig, Runner, function_tool
from asgiref.sync import async_to_sync

from django_agent_sessions.adapters.openai_agents import DjangoSession

from . import lookups
from .model_choice import choose_openai_model

KIND = "openai"
"""What the metadata of a session say whose agent this is."""

# Tracing would send conversations to OpenAI, where no redaction reaches them.
_RUN_CONFIG = RunConfig(tracing_disabled=True)


@function_tool
def weather(city: str) -> str:
    """Tells the weather in a city.

    Args:
        city: Name of the city.
    """
    return lookups.weather_in(city)


def concierge() -> Agent[Any]:
    """Builds the agent; a session is given to each of its runs.

    Returns:
        The agent.
    """
    return Agent(
        name="concierge",
        instructions="You are a friendly concierge. Answer briefly. Use the tool for weather.",
        tools=[weather],
        model=choose_openai_model(),
    )


async def aask(session_id: str, text: str, *, owner: Any, title: str = "") -> str:
    """Says something to the agent, in async code.

    Args:
        session_id: The session.
        text: What the user says.
        owner: Whose session it is.
        title: Title of a session that is new.

    Returns:
        What the agent answers.

    Raises:
        SessionNotFoundError: The session is somebody else's.
    """
    session = DjangoSession(session_id, owner=owner, title=title, metadata={"agent": KIND})
    result = await Runner.run(concierge(), text, session=session, run_config=_RUN_CONFIG)
    return str(result.final_output)


def ask(session_id: str, text: str, *, owner: Any, title: str = "") -> str:
    """Does what :func:`aask` does, in sync code."""
    return async_to_sync(aask)(session_id, text, owner=owner, title=title)
