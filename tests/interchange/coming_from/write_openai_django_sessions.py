"""Writes a database with openai-django-sessions' own code, by runs of the SDK."""

from __future__ import annotations

import sys
from pathlib import Path

from asgiref.sync import async_to_sync

from tests.adapters.openai_agents.scripted import ScriptedModel, call

from .writing import finish, set_up


def write(database: Path) -> None:
    set_up(database)
    from agents import Agent, RunConfig, Runner, function_tool
    from django.contrib.auth.models import User
    from openai_django_sessions import DjangoSession

    @function_tool
    def add(a: int, b: int) -> int:
        return a + b

    User.objects.create_user("ada")
    model = ScriptedModel([call("add", a=2, b=3), "Five 🐇."])
    agent = Agent(name="Helper", model=model, tools=[add])
    for name, text in (
        ("chat-ada", "What is 2 + 3?"),
        ("chat-ada", "And 4 + 5?"),
        ("chat-guest", "Hello."),
    ):
        session = DjangoSession(name, create_tables=True)
        untraced = RunConfig(tracing_disabled=True)
        async_to_sync(Runner.run)(agent, text, session=session, run_config=untraced)
    finish(
        database,
        {
            name: async_to_sync(DjangoSession(name).get_items)()
            for name in ("chat-ada", "chat-guest")
        },
    )


if __name__ == "__main__":
    write(Path(sys.argv[1]) / "openai_django_sessions.db")
