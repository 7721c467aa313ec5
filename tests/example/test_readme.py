"""The lines on the first page run, on the example's offline models."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from dataclasses import fields
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import agents
import pytest
from django.apps import apps
from django.core.management import get_commands

from django_agent_sessions import conf
from django_agent_sessions.models import Session
from django_agent_sessions.store import SessionStore
from example_project.chat.offline.openai_model import OfflineOpenAIModel
from example_project.chat.offline.strands_model import OfflineStrandsModel
from tests.processes import ROOT

pytestmark = pytest.mark.django_db(transaction=True)

BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def run(containing: str, namespace: dict[str, Any]) -> None:
    """Runs the one block that contains a text; it may await."""
    (block,) = (block for block in BLOCKS if containing in block)
    code = compile(block, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    done = eval(code, namespace)  # noqa: S307 - our own page
    if inspect.iscoroutine(done):
        asyncio.run(done)


def test_one_user_after_another_has_a_session_of_each_kind(ada, bob, monkeypatch, capsys):
    monkeypatch.setattr("strands.agent.agent.BedrockModel", OfflineStrandsModel)
    agent: agents.Agent[Any] = agents.Agent(name="assistant", model=OfflineOpenAIModel())
    for user in (ada, bob):
        request = SimpleNamespace(user=user, auser=AsyncMock(return_value=user))
        given = {"request": request, "SessionStore": SessionStore}
        run("DjangoSessionManager(", dict(given))
        run("DjangoSession(", {**given, "agent": agent})
        run("SessionStore(", dict(given))

        made = Session.objects.filter(owner=user).values_list("message_count", flat=True)
        assert sorted(made) == [1, 2, 2]
    assert capsys.readouterr().out == ""


def test_the_table_of_what_is_installed_counts_right():
    readme = (ROOT / "README.md").read_text()
    models = apps.get_app_config("agent_sessions").get_models(include_auto_created=True)
    settings = fields(conf.AgentSessionsSettings)
    commands = [name for name, app in get_commands().items() if app == "django_agent_sessions"]

    assert f"{len(list(models))} tables" in readme
    assert f"[{len(commands)} commands]" in readme
    assert f"[{len(settings)} settings]" in readme
