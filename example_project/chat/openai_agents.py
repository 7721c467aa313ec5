"""The OpenAI agent of the chat: what a project would write."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from agents import Agent, RunConfig, Runner, RunResultStreaming, ToolOutputImage, function_tool
from asgiref.sync import async_to_sync

from django_agent_sessions.adapters.openai_agents import DjangoSession

from . import lookups
from .model_choice import choose_openai_model
from .weather_map import draw

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


@function_tool
def weather_map(city: str) -> ToolOutputImage:
    """Draws the weather in a city.

    Args:
        city: Name of the city.
    """
    image = b64encode(draw(lookups.weather_in(city))).decode()
    return ToolOutputImage(image_url=f"data:image/png;base64,{image}")


def concierge() -> Agent[Any]:
    """Builds the agent; a session is given to each of its runs.

    Returns:
        The agent.
    """
    return Agent(
        name="concierge",
        instructions="You are a friendly concierge. Answer briefly. Use the tool for weather.",
        tools=[weather, weather_map],
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


def stream(
    session_id: str, said: Any, *, owner: Any, namespace: str = "", scope: str = ""
) -> RunResultStreaming:
    """Says something to the agent, and gives its answer while it comes.

    Args:
        session_id: The session.
        said: What the user says, as text or as items of the SDK.
        owner: Whose session it is.
        namespace: The session's namespace.
        scope: The scope of its id in the namespace.

    Returns:
        The run, whose events are read by ``stream_events()``.
    """
    # The session is there; one that was deleted meanwhile is not made anew.
    session = DjangoSession(session_id, owner=owner, namespace=namespace, scope=scope, create=False)
    return Runner.run_streamed(concierge(), said, session=session, run_config=_RUN_CONFIG)
