"""Somebody redacts a conversation that an agent in another process has in memory."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
import strands
from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.session.repository_session_manager import RepositorySessionManager

from django_agent_sessions.adapters.strands import DjangoSessionManager, DjangoSessionRepository
from django_agent_sessions.db import bridge
from django_agent_sessions.governance.redaction import Find, WholeMessage, redact
from django_agent_sessions.models import SessionAgent, SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.testing import columns_containing, files_containing
from tests.adapters.processes import hold, let_go
from tests.texts import text_of

from .agents import build, texts
from .held import SECRET, summarizing
from .process import graph
from .scripted import Overflow, ScriptedModel, call

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.process
@pytest.mark.parametrize("work", ["agent", "summary", "graph"])
def test_no_sync_and_no_append_brings_it_back(work):
    held = hold("tests.adapters.strands.held", work)
    assert columns_containing("plantedsecret") != []

    redaction = redact(SessionStore().get("s").id, Find(SECRET), reason="A request")
    assert columns_containing("plantedsecret") == []
    before = SessionMessage.objects.count()
    said = let_go(held)

    assert columns_containing("plantedsecret") == []
    assert files_containing("plantedsecret") == []
    assert redaction.states >= 1
    # Neither is it in what the process goes on with, nor in what it then told its model.
    assert "plantedsecret" not in said[-1]
    assert json.loads(said[-1])["heard"]
    if work != "graph":
        assert SessionMessage.objects.count() > before
        again = build(conversation_manager=summarizing() if work == "summary" else None)
        assert again.messages == json.loads(said[-1])["messages"]
        assert again.state.get() == json.loads(said[-1])["state"]


def test_what_changed_meanwhile_stays():
    agent = build(f"I note {SECRET}.", "Fine.")
    agent.state.set("note", f"it is {SECRET}")
    agent.state.set("count", 1)
    agent(f"My code is {SECRET}")

    redact(SessionStore().get("s").id, Find(SECRET), reason="A request")
    agent.state.set("count", 2)
    agent.state.set("new", [f"again {SECRET}", 3])
    agent("Go on")

    assert agent.state.get() == {
        "note": "it is [REDACTED]",
        "count": 2,
        "new": ["again [REDACTED]", 3],
    }
    assert build().state.get() == agent.state.get()


@pytest.mark.parametrize(
    "spelled",
    [base64.b64encode(b"me:O'Neill-4711").decode(), "O’Neill\u20114711", "o%2527neill-4711"],
)
def test_no_other_spelling_of_it_is_brought_back(spelled):
    agent = build(f"I note {spelled}.", "Fine.")
    agent.state.set("note", f"it is {spelled}")
    agent(f"It is O'Neill-4711, so {spelled}")

    redact(SessionStore().get("s").id, Find("O'Neill-4711"), reason="A request")
    agent.state.set("count", 2)
    agent.state.set("new", f"again {spelled}")
    agent("Go on")

    assert "neill" not in str(agent.messages).lower()
    assert spelled not in str(agent.messages)
    assert agent.state.get() == {
        "note": "it is [REDACTED]",
        "count": 2,
        "new": "again [REDACTED]",
    }
    assert columns_containing(spelled) == columns_containing("Neill") == []
    assert build().state.get() == agent.state.get()


def test_a_message_whose_write_had_failed_is_written_without_it():
    from .agents import manager_of
    from .traffic import watched

    agent = build("Hello.", "Fine.")
    agent(f"It is {SECRET}")
    with watched() as traffic:
        traffic.failing = lambda sql: RuntimeError("full") if sql.startswith("INSERT") else None
        with pytest.raises(RuntimeError, match="full"):
            manager_of(agent).append_message(
                {"role": "user", "content": [{"text": f"Remember {SECRET}"}]}, agent
            )
        traffic.failing = lambda sql: None
    redact(SessionStore().get("s").id, Find(SECRET), reason="A request")

    manager_of(agent).sync_agent(agent)

    assert columns_containing("plantedsecret") == []
    assert text_of(SessionMessage.objects.get(message_id=2)) == "Remember [REDACTED]"


def test_strands_own_manager_on_the_repository_brings_nothing_back():
    repository = DjangoSessionRepository()
    manager = RepositorySessionManager("s", session_repository=repository)
    agent = build("Noted.", "Fine.", session_manager=manager)
    agent.state.set("note", f"it is {SECRET}")
    agent(f"My code is {SECRET}")

    redact(SessionStore().get("s").id, Find(SECRET), reason="A request")
    agent.state.set("other", f"again {SECRET}")
    agent("Go on")

    assert columns_containing("plantedsecret") == []
    kept = SessionAgent.objects.get().state
    assert kept == {"note": "it is [REDACTED]", "other": "again [REDACTED]"}


def test_strands_own_manager_brings_nothing_back_into_an_orchestrator():
    repository = DjangoSessionRepository()
    made = graph(manager=RepositorySessionManager("s", session_repository=repository))
    made.nodes["research"].executor.model.steps = [f"I found {SECRET}"]
    made("Look")
    assert columns_containing("plantedsecret") != []

    redact(SessionStore().get("s").id, Find(SECRET), reason="A request")
    repository.update_multi_agent("s", made)

    assert columns_containing("plantedsecret") == []


def test_a_summary_that_is_made_later_and_quotes_it_is_masked():
    agent = build(
        f"I note {SECRET}.",
        "Yes.",
        Overflow(),
        f"SUMMARY: they said {SECRET}",
        "After.",
        conversation_manager=summarizing(),
    )
    agent(f"My code is {SECRET}")
    agent("Is it noted?")

    redact(SessionStore().get("s").id, Find(SECRET), reason="A request")
    agent("Go on")

    again = build(conversation_manager=summarizing())
    assert texts(again.messages)[0] == "SUMMARY: they said [REDACTED]"
    assert again.messages == agent.messages
    assert columns_containing("plantedsecret") == []
    assert files_containing("plantedsecret") == []


class NotingManager(SlidingWindowConversationManager):
    """Keeps a text of its own, as an attribute."""

    notes = ""

    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "notes": self.notes}


def test_what_a_conversation_manager_keeps_as_plain_text_is_not_written_again():
    manager = NotingManager()
    agent = build("Noted.", "Fine.", conversation_manager=manager)
    manager.notes = f"They said {SECRET}"
    agent("Hello")
    assert columns_containing("plantedsecret") != []

    redact(SessionStore().get("s").id, Find(SECRET), reason="A request")
    agent.state.set("later", 1)
    agent("Go on")
    agent.state.set("later", 2)
    agent("And on")

    assert columns_containing("plantedsecret") == []
    assert SessionAgent.objects.get().state == {"later": 2}


def test_a_short_secret_is_redacted_where_it_stood_and_nowhere_else():
    agent = build("Noted.", "Fine.")
    agent.state.set("pin", "1234")
    agent.state.set("order", {"number": "A-12345", "count": 12340})
    agent("It is 1234")
    store = SessionStore()

    redact(store.get("s").id, Find("1234"), reason="A request")
    agent.state.set("order", {"number": "A-12345", "count": 12340, "paid": True})
    agent("Go on")

    state = SessionAgent.objects.get().state
    assert state["pin"] == "[REDACTED]"
    assert state["order"]["paid"] is True


def test_the_redaction_of_one_word_leaves_the_agents_state_alone():
    agent = build("Noted.", "Fine.")
    agent.state.set("count", 100)
    agent.state.set("day", "yesterday")
    agent("yes")
    message = SessionMessage.objects.get(message_id=0)

    redact(message.session_id, WholeMessage(message.pk), reason="A request")
    agent.state.set("more", 1)
    agent("Go on")

    assert SessionAgent.objects.get().state == {"count": 100, "day": "yesterday", "more": 1}
    assert text_of(SessionMessage.objects.get(message_id=0)) == "[REDACTED]"


def test_no_answer_brings_back_what_was_redacted_and_then_taken_back_in_time():
    def redact_and_rewind() -> None:
        store = SessionStore()
        session = store.get("s")
        redact(session.id, Find(SECRET), reason="A request")
        store.branches.rewind(store.agents.open(session, "a"), 0)

    @strands.tool
    def look() -> str:
        """Somebody redacts, and goes back in time, while a tool runs."""
        bridge.run_orm(redact_and_rewind)
        return "there"

    agent = strands.Agent(
        agent_id="a",
        model=ScriptedModel(["fine", call("look"), f"You said {SECRET}."]),
        tools=[look],
        session_manager=DjangoSessionManager("s"),
        callback_handler=None,
    )
    agent("hello")
    agent(f"My code is {SECRET}")

    assert columns_containing(SECRET) == []
    assert SECRET not in json.dumps(agent.messages)
