"""The examples on the pages about Strands run."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import RequestFactory
from strands import Agent, tool
from strands.types.exceptions import EventLoopException

from django_agent_sessions.adapters.strands import DjangoSessionManager
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.values.ids import new_id
from tests.processes import ROOT

from .agents import build, stored, texts
from .scripted import ScriptedModel, call

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
        ("how-to/strands.md", False),
        ("how-to/strands.md", True),
        ("how-to/strands-snapshots.md", False),
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


def test_a_conflict_is_answered_before_a_run_and_within_it():
    blocks = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs/how-to/strands.md").read_text(), re.DOTALL
    )
    (block,) = (block for block in blocks if "def answer_or_conflict(" in block)
    namespace: dict[str, Any] = {}
    exec(block, namespace)  # noqa: S102 - our own page
    answer = namespace["answer_or_conflict"]
    stale = build("A.", on_conflict="raise")
    assert answer(build("B."), "b").content == b"B.\n"

    assert answer(stale, "a").status_code == 409

    @tool
    def somebody_else() -> str:
        """Somebody else says something meanwhile."""
        build("C.")("c")
        return "done"

    meanwhile = Agent(
        model=ScriptedModel([call("somebody_else"), "D."]),
        tools=[somebody_else],
        session_manager=DjangoSessionManager("s", on_conflict="raise"),
        callback_handler=None,
    )

    assert answer(meanwhile, "d").status_code == 409


def answer_in_a_job() -> Any:
    """The ``answer`` of the page about background jobs."""
    page = (ROOT / "docs/how-to/celery.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (block,) = (block for block in blocks if "def answer(" in block)
    namespace: dict[str, Any] = {}
    exec(block, namespace)  # noqa: S102 - our own page
    return namespace["answer"]


@pytest.mark.parametrize(
    "steps",
    [
        [RuntimeError("the model is away")],
        [call("add", a=1, b=2), RuntimeError("the model is away")],
    ],
)
def test_a_job_that_is_tried_again_goes_on_where_it_broke_off(ada, steps):
    answer, job = answer_in_a_job(), new_id()
    with pytest.raises((RuntimeError, EventLoopException)):
        answer(lambda manager: build(*steps, session_manager=manager), ada, "s", "1 + 2?", job)

    again = answer(lambda m: build("Three.", session_manager=m), ada, "s", "1 + 2?", job)
    assert again == "Three."

    middle = ["call add", "result 3"][: 2 * (len(steps) - 1)]
    assert texts(stored()) == ["1 + 2?", *middle, "Three."]
    # In another job, the same words are said anew.
    other = answer(lambda m: build("Still.", session_manager=m), ada, "s", "1 + 2?", new_id())
    assert other == "Still."
    assert texts(stored()) == ["1 + 2?", *middle, "Three.", "1 + 2?", "Still."]


def test_a_job_whose_worker_was_killed_in_a_tool_calls_it_again(ada):
    answer, job = answer_in_a_job(), new_id()
    steps = [call("add", a=1, b=2), "Three."]
    answer(lambda m: build(*steps, session_manager=m), ada, "s", "1 + 2?", job)
    # What a kill within the tool leaves.
    SessionMessage.objects.filter(message_id__gt=1).delete()

    again = answer(lambda m: build("Three.", session_manager=m), ada, "s", "1 + 2?", job)
    assert again == "Three."

    assert texts(stored()) == ["1 + 2?", "call add", "result 3", "Three."]


def test_the_async_view_of_the_page_about_contexts(ada, capsys):
    view = chat_on("how-to/contexts.md", is_async=True)
    request = RequestFactory().post("/", {"text": "Hello"})
    request.auser = request_of(ada).auser

    assert async_to_sync(view)(request, "s").content == b"You said: Hello\n"

    # By this Django knows that it is to call it without a transaction.
    assert view._non_atomic_requests == {"default"}
    assert Session.objects.get().owner_id == ada.pk
    assert capsys.readouterr() == ("", "")
