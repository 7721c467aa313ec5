"""The examples on the page of this adapter run."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agents import Runner

from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession, DjangoSession
from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import Session
from django_agent_sessions.testing import columns_containing

from .scripted import call
from .team import assistant, requests, stored, texts

pytestmark = [
    pytest.mark.django_db(transaction=True),
    # Runner.run_sync asks for it.
    pytest.mark.filterwarnings("ignore:'asyncio.get_event_loop_policy':DeprecationWarning"),
]

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "openai-agents.md"
ADVANCED = PAGE.with_name("openai-agents-advanced.md")


def defined_on(path: Path) -> SimpleNamespace:
    """What the examples define, each of them run after the ones above it."""
    namespace: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL):
        exec(block, namespace)  # noqa: S102 - our own page
    return SimpleNamespace(**namespace)


@pytest.fixture(scope="module")
def page() -> SimpleNamespace:
    return defined_on(PAGE)


def request_of(user: Any) -> SimpleNamespace:
    async def auser() -> Any:
        return user

    return SimpleNamespace(user=user, auser=auser)


def test_a_chat(page, ada):
    request = request_of(ada)
    assert asyncio.run(page.chat(request, assistant(), "s", "Hello")) == "You said: Hello"

    context = SimpleNamespace(user=ada)
    assert asyncio.run(page.chat_as(context, assistant("Hi."), "s", "And again")) == "Hi."
    assert texts(stored()) == ["Hello", "You said: Hello", "And again", "Hi."]
    assert Session.objects.get().owner_id == ada.pk
    assert asyncio.run(page.long_chat(ada, assistant("Good."), "t", "Hello")) == "Good."


def test_with_create_false_no_session_is_made_and_no_model_called():
    agent = assistant("Hi.")
    with pytest.raises(SessionNotFoundError):
        asyncio.run(Runner.run(agent, "Hello", session=DjangoSession("s", create=False)))

    assert requests(agent) == []
    assert not Session.objects.exists()


def test_a_chat_in_a_transaction(page, thread_loop):
    agent = assistant(call("register", name="ada"), "Done.")
    assert page.chat_or_nothing(agent, "s", "Register ada") == "Done."

    with pytest.raises(LookupError):
        page.chat_or_nothing(assistant(call("add", a=1, b=1), LookupError()), "s", "1 + 1?")
    assert len(stored()) == 4


def test_an_approval(page, ada):
    agent = assistant(call("pay", amount=3), [call("pay", amount=4)], "Paid.")
    asyncio.run(page.ask(ada, agent, "s", "Pay 3"))
    assert texts(stored()) == ["Pay 3", "call pay"]

    asyncio.run(page.approve(ada, agent, "s"))
    assert asyncio.run(page.approve(ada, agent, "s")) == "Paid."
    assert texts(stored())[2:] == ["output paid 3", "call pay", "output paid 4", "Paid."]


def test_an_approval_that_is_clicked_twice(page, ada):
    agent = assistant(call("pay", amount=3), "Paid.", delay=0.05)
    asyncio.run(page.ask(ada, agent, "s", "Pay 3"))

    async def click_twice() -> list[Any]:
        return await asyncio.gather(*(page.approve(ada, agent, "s") for _ in range(2)))

    assert sorted(asyncio.run(click_twice()), key=str) == [None, "Paid."]
    assert texts(stored()).count("output paid 3") == 1


def test_an_approval_of_a_call_that_is_gone(page, ada):
    agent = assistant(call("pay", amount=3), "Paid.")
    asyncio.run(page.ask(ada, agent, "s", "Pay 3"))
    asyncio.run(DjangoSession("s", owner=ada).clear_session())

    assert asyncio.run(page.approve(ada, agent, "s")) is None
    assert stored() == []


def test_an_approval_after_a_redaction(page, ada):
    agent = assistant(call("pay", amount=3), "Paid.")
    asyncio.run(page.ask(ada, agent, "s", "I am plantedsecret, pay 3"))
    redact(Session.objects.get().pk, Find("plantedsecret"), reason="A request")
    assert columns_containing("plantedsecret") == []

    assert asyncio.run(page.approve(ada, agent, "s")) == "Paid."
    assert texts(requests(agent)[-1])[0] == "I am [REDACTED], pay 3"


def test_a_redaction(page, ada):
    session = DjangoSession("s", owner=ada)
    asyncio.run(Runner.run(assistant("1234 5678"), "My card?", session=session))
    asyncio.run(page.forget_card_number(ada, "s"))

    assert texts(stored()) == ["My card?", "[removed]"]


def test_another_answer(ada):
    request = request_of(ada)
    session = AdvancedDjangoSession("s", owner=ada)
    asyncio.run(Runner.run(assistant("By car."), "How do I get there?", session=session))

    answer = defined_on(ADVANCED).another_answer(request, assistant("By train."), "s")

    assert asyncio.run(answer) == "By train."
    assert texts(asyncio.run(session.get_items())) == ["How do I get there?", "By car."]
    used = asyncio.run(session.get_session_usage())
    assert used is not None
    assert used["requests"] == 1
