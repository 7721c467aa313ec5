"""The Strands agent of the chat, and a graph of two: what a project would write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from strands import Agent, ToolContext, tool
from strands.hooks import HookProvider
from strands.multiagent.graph import Graph, GraphBuilder

from django_agent_sessions.adapters.strands import DjangoSessionManager

from . import lookups
from .model_choice import choose_strands_model
from .offline import rules
from .weather_map import draw

KIND = "strands"
"""What the metadata of a session say whose agent this is."""

_PROMPT = (
    "You are a friendly concierge. Answer briefly. Use the tools for weather and appointments. "
    "Never repeat a card number."
)


@tool(context=True)
def weather(city: str, tool_context: ToolContext) -> str:
    """Tells the weather in a city.

    Args:
        city: Name of the city.
        tool_context: The call; Strands gives it, and the model does not see it.
    """
    _count_lookup(tool_context)
    return lookups.weather_in(city)


@tool(context=True)
def weather_map(city: str, tool_context: ToolContext) -> dict[str, Any]:
    """Draws the weather in a city.

    Args:
        city: Name of the city.
        tool_context: The call; Strands gives it, and the model does not see it.
    """
    _count_lookup(tool_context)
    weather = lookups.weather_in(city)
    image = {"format": "png", "source": {"bytes": draw(weather)}}
    return {"status": "success", "content": [{"text": weather}, {"image": image}]}


@tool(context=True)
def calendar(day: str, tool_context: ToolContext) -> str:
    """Tells the user's appointments on a day.

    Args:
        day: Name of the weekday.
        tool_context: The call; Strands gives it, and the model does not see it.
    """
    _count_lookup(tool_context)
    return lookups.appointments_on(day)


def concierge(session_id: str, *, owner: Any, title: str = "") -> Agent:
    """Builds the agent, with the conversation and state of the session.

    Args:
        session_id: The session.
        owner: Whose it is.
        title: Title of a session that is new.

    Returns:
        The agent, ready to be called.

    Raises:
        SessionNotFoundError: The session is somebody else's.
    """
    return _concierge(
        DjangoSessionManager(session_id, owner=owner, title=title, metadata={"agent": KIND})
    )


async def aconcierge(session_id: str, *, owner: Any, namespace: str = "", scope: str = "") -> Agent:
    """Does what :func:`concierge` does in async code, whose event loop does not wait for it.

    Args:
        session_id: The session.
        owner: Whose it is.
        namespace: The session's namespace.
        scope: The scope of its id in the namespace.

    Returns:
        The agent.

    Raises:
        SessionNotFoundError: The session is somebody else's.
    """
    return _concierge(
        await DjangoSessionManager.load(
            session_id, owner=owner, namespace=namespace, scope=scope, metadata={"agent": KIND}
        )
    )


def ask(session_id: str, text: str, *, owner: Any, title: str = "") -> str:
    """Says something to the agent.

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
    return str(concierge(session_id, owner=owner, title=title)(text)).strip()


def trip_graph(
    session_id: str, *, owner: Any, title: str = "", hooks: Sequence[HookProvider] = ()
) -> Graph:
    """Builds a graph of two agents: a planner, then a writer who gets the plan.

    Args:
        session_id: The session; where its graph was cut short, the graph goes on from there.
        owner: Whose it is.
        title: Title of a session that is new.
        hooks: Hooks of the graph.

    Returns:
        The graph, ready to be called.

    Raises:
        SessionNotFoundError: The session is somebody else's.
    """
    builder = GraphBuilder()
    builder.add_node(
        Agent(
            name="planner",
            model=choose_strands_model(rules.planner),
            system_prompt="Plan the trip in one sentence.",
            callback_handler=None,
        ),
        "planner",
    )
    builder.add_node(
        Agent(
            name="writer",
            model=choose_strands_model(rules.writer),
            system_prompt="Write the plan as a letter to the traveller, in three sentences.",
            callback_handler=None,
        ),
        "writer",
    )
    builder.add_edge("planner", "writer")
    builder.set_entry_point("planner")
    builder.set_graph_id("trip")
    builder.set_max_node_executions(4)
    builder.set_execution_timeout(300)
    builder.set_hook_providers(list(hooks))
    builder.set_session_manager(
        DjangoSessionManager(session_id, owner=owner, title=title, metadata={"agent": "graph"})
    )
    return builder.build()


def _concierge(session_manager: DjangoSessionManager) -> Agent:
    return Agent(
        agent_id="concierge",
        model=choose_strands_model(rules.concierge),
        system_prompt=_PROMPT,
        tools=[weather, weather_map, calendar],
        state={"lookups": 0},
        session_manager=session_manager,
        # By default an agent prints what it says.
        callback_handler=None,
    )


def _count_lookup(tool_context: ToolContext) -> None:
    state = tool_context.agent.state
    state.set("lookups", (state.get("lookups") or 0) + 1)
