"""The examples on the pages about Strands run."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import RequestFactory

from django_agent_sessions.models import Session
from tests.processes import ROOT

from .scripted import ScriptedModel

pytestmark = pytest.mark.django_db(transaction=True)


def chat_on(page: str, *, is_async: bool = False) -> Any:
    """The ``chat`` that an example on a page defines."""
    begin = "async def chat(" if is_async else "\ndef chat("
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)
    (imports, *_) = (block for block in blocks if "import Agent" in block)
    (block,) = (block for block in blocks if begin in block)
    exec(imports + block, namespace := {"__name__": page})  # noqa: S102 - our own page
    return namespace["chat"]


@pytest.fixture(autouse=True)
def model(monkeypatch):
    """What agents without a model are given, in place of Bedrock."""
    given = ScriptedModel()
    monkeypatch.setattr("strands.agent.agent.BedrockModel", lambda: given)
    return given


def request_of(user: Any) -> SimpleNamespace:
    async def auser() -> Any:
        return user

    return SimpleNamespace(user=user, auser=auser)


@pytest.mark.parametrize(
    ("page", "is_async"),
    [
        ("adapters/strands.md", False),
        ("adapters/strands.md", True),
        ("adapters/strands-snapshots.md", False),
    ],
)
def test_a_chat_remembers_and_prints_nothing(page, is_async, ada, model, capsys):
    chat = chat_on(page, is_async=is_async)
    say = async_to_sync(chat) if is_async else chat

    assert say(request_of(ada), "s", "Hello").strip() == "You said: Hello"
    assert say(request_of(ada), "s", "Again").strip() == "You said: Again"

    assert [len(said) for said in model.requests] == [1, 3]
    assert Session.objects.get().owner_id == ada.pk
    assert capsys.readouterr() == ("", "")


def test_the_async_view_of_the_page_about_contexts(ada, capsys):
    view = chat_on("contexts.md", is_async=True)
    request = RequestFactory().post("/", {"text": "Hello"})
    request.auser = request_of(ada).auser

    assert async_to_sync(view)(request, "s").content == b"You said: Hello\n"

    # By this Django knows that it is to call it without a transaction.
    assert view._non_atomic_requests == {"default"}
    assert Session.objects.get().owner_id == ada.pk
    assert capsys.readouterr() == ("", "")
