"""Writes a database with agentic-django's own code: its runs, its tasks, its sessions."""

from __future__ import annotations

import sys
from pathlib import Path

from asgiref.sync import async_to_sync

from tests.adapters.openai_agents.scripted import ScriptedModel, call

from .writing import finish, set_up


def get_agent_registry():
    """What its settings name."""
    from agents import Agent, function_tool

    @function_tool
    def add(a: int, b: int) -> int:
        return a + b

    model = ScriptedModel([call("add", a=2, b=3), "Five 🐇."])
    return {"default": lambda: Agent(name="Helper", model=model, tools=[add])}


def write(database: Path) -> None:
    set_up(
        database,
        apps=["agentic_django.apps.AgenticDjangoConfig"],
        AGENTIC_DJANGO_AGENT_REGISTRY=f"{get_agent_registry.__module__}.get_agent_registry",
        TASKS={"default": {"BACKEND": "django_tasks.backends.immediate.ImmediateBackend"}},
    )
    from agentic_django.models import AgentRun, AgentSession
    from agentic_django.services import submit_agent_run
    from agentic_django.sessions import get_session
    from django.contrib.auth.models import User

    ada, bob = (User.objects.create_user(name) for name in ("ada", "bob"))
    # Both have a session of this name, which is allowed there.
    for owner, key, text in (
        (ada, "support", "What is 2 + 3?"),
        (ada, "support", "And 4 + 5?"),
        (bob, "support", "Hello, I am Bob."),
        (bob, "billing", "Where is my invoice?"),
    ):
        submit_agent_run(owner=owner, session_key=key, agent_key="default", input_payload=text)
    assert not AgentRun.objects.exclude(status="completed").exists()
    AgentSession.objects.filter(session_key="billing").update(metadata={"team": "blue"})
    finish(
        database,
        {
            f"{session.owner.username}/{session.session_key}": async_to_sync(
                get_session(session.session_key, session.owner).get_items
            )()
            for session in AgentSession.objects.order_by("owner", "session_key")
        },
    )


if __name__ == "__main__":
    write(Path(sys.argv[1]) / "agentic_django.db")
