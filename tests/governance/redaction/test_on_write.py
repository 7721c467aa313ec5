"""What the detectors of ``REDACT_ON_WRITE`` find is masked before it is written, on every way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import Runner

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.testing import columns_containing, files_containing
from django_agent_sessions.values.records import AgentState
from tests.adapters.openai_agents.team import assistant
from tests.adapters.strands.agents import build

pytestmark = pytest.mark.django_db(transaction=True)

CARD = "4111 1111 1111 1111"
MASK = "[REDACTED:CARD]"


@pytest.fixture(autouse=True)
def masked(settings):
    settings.AGENT_SESSIONS = {"REDACT_ON_WRITE": ("card", "email")}


def expect_nowhere() -> None:
    assert columns_containing(CARD) == []
    assert columns_containing("411111111") == []
    assert files_containing("4111 1111") == []


def test_the_store_masks_all_that_it_writes(store):
    session = store.open("s", title=f"About {CARD}", metadata={"card": CARD})
    agent = store.agents.open(session, data=AgentState(state={"card": 4111111111111111}))
    written = store.append(agent, {"role": "user", "content": f"It is {CARD}"})
    store.append_many(agent, [{"role": "user", "content": CARD}] * 2)
    store.messages.update(agent, 1, {"role": "user", "content": f"Again {CARD}"})
    store.agents.update(agent, AgentState(state={"mail": "ada@example.com"}))
    store.multi_agents.create(session, "g", {"type": "graph", "current_task": CARD})
    store.multi_agents.update(session, "g", {"type": "graph", "current_task": f"More {CARD}"})

    expect_nowhere()
    assert [payload["content"] for payload in store.payloads(agent)] == [
        f"It is {MASK}",
        f"Again {MASK}",
        MASK,
    ]
    assert store.get("s").title == f"About {MASK}"
    assert store.agents.list(session)[0].data.state == {"mail": "[REDACTED:EMAIL]"}
    assert store.multi_agents.find(session, "g").state["current_task"] == f"More {MASK}"
    # Whoever wrote it goes on with what it had.
    assert written.message["content"] == f"It is {CARD}"
    assert SessionMessage.objects.get(agent=agent.id, message_id=0).redacted_at is None


def test_the_title_of_a_fork_is_masked_and_made_storable(store):
    session = store.open("s", title="first")

    assert store.sessions.fork(session, title=f"About {CARD}").title == f"About {MASK}"
    assert (
        store.sessions.fork(session, title="a\x00b\ud800").title
        == store.open("t", title="a\x00b\ud800").title
    )
    assert store.sessions.fork(session, title="").title == ""
    assert store.sessions.fork(session).title == "first"
    expect_nowhere()


def test_a_strands_agent_remembers_until_it_is_restored():
    agent = build(f"I keep {CARD}.", "Fine.")
    agent.state.set("card", CARD)
    agent(f"My card is {CARD}")
    agent("Thanks")

    expect_nowhere()
    assert CARD in str(agent.messages)
    again = build()
    assert again.messages[0]["content"] == [{"text": f"My card is {MASK}"}]
    assert again.state.get() == {"card": MASK}
    assert len(again.messages) == 4


def test_an_openai_run_reads_the_mask_from_the_next_run_on():
    agent = assistant(f"I keep {CARD}.", "Fine.")
    asyncio.run(Runner.run(agent, f"My card is {CARD}", session=DjangoSession("s")))

    expect_nowhere()
    items: list[Any] = asyncio.run(DjangoSession("s").get_items())
    assert items[0]["content"] == f"My card is {MASK}"


def test_off_is_the_default(settings, store):
    settings.AGENT_SESSIONS = {}
    agent = store.agents.open(store.open("s"))
    store.append(agent, {"role": "user", "content": CARD})

    assert store.payloads(agent)[0]["content"] == CARD


def test_a_detector_that_is_missing_stops_the_write_before_anything_is_written(settings, store):
    settings.AGENT_SESSIONS = {"REDACT_ON_WRITE": ["nothing"]}

    with pytest.raises(ConfigurationError, match="nothing"):
        store.open("s", title="x")

    assert not Session.objects.exists()
