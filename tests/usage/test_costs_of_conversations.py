"""Conversations of both SDKs: what they cost is the same everywhere, and equals a sum by hand."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html import unescape

import pytest
from agents import Agent, Runner
from django.urls import reverse

from django_agent_sessions import SessionStore, usage
from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.interchange import JsonLines, export_sessions, import_sessions
from django_agent_sessions.models import Session
from tests.adapters.openai_agents.scripted import ScriptedModel
from tests.adapters.strands.agents import build
from tests.adapters.strands.scripted import call

pytestmark = pytest.mark.django_db(transaction=True)

PRICES = {"scripted": {"input": 3, "output": 15}, "gpt-5": {"input": "1.25", "output": "10"}}
# Each call of a scripted model has 10 tokens of input and 5 of output. Strands' agent calls its
# model three times, one of them for a tool: 3 × (10 × 3 + 5 × 15) = 315 millionths.
STRANDS = Decimal("0.000315")
# The other agent calls its model twice: 2 × (10 × 1.25 + 5 × 10) = 125 millionths.
OPENAI = Decimal("0.000125")


@pytest.fixture
def spoken(settings, ada):
    settings.AGENT_SESSIONS = {"PRICES": PRICES, "CURRENCY": "EUR"}
    agent = build("Hello.", call("add", a=1, b=2), "Three.", session_id="strands", owner=ada)
    agent("Hi")
    agent("1 + 2?")

    async def talk(name: str, model: str, times: int) -> None:
        session = DjangoSession(name, owner=ada, model=model)
        other = Agent(name="assistant", model=ScriptedModel())
        for number in range(times):
            await Runner.run(other, f"Question {number}", session=session)

    asyncio.run(talk("openai", "gpt-5-2025-08-07", 2))
    asyncio.run(talk("no price", "other-model", 1))
    asyncio.run(talk("no model", "", 1))
    usage.roll_up(until=datetime.now(UTC) + timedelta(days=1))


def test_the_sessions_the_figures_the_pages_and_the_api_agree(spoken, admin_client, ada):
    expected = {"strands": STRANDS, "openai": OPENAI, "no price": None, "no model": None}
    rows = {row.session_id: row for row in Session.objects.all()}
    assert {name: usage.amount(row.cost) for name, row in rows.items()} == expected
    records = SessionStore(owner=ada).sessions.list()
    assert {one.session_id: usage.amount(one.usage.cost) for one in records} == expected

    by_hand = STRANDS + OPENAI
    assert usage.amount(usage.total(usage.daily(1)).cost) == by_hand == Decimal("0.00044")
    assert {one.key: usage.amount(one.cost) for one in usage.top("model", 1)} == {
        "scripted": STRANDS,
        "gpt-5-2025-08-07": OPENAI,
        "other-model": None,
    }
    page = admin_client.get(reverse("admin:agent_sessions_usagerollup_changelist"), {"days": 7})
    content = unescape(page.content.decode())
    assert '<dt>Cost</dt><dd title="0.00044 EUR">0.0004 EUR</dd>' in content
    models = content.split('aria-labelledby="usage-models"')[1].split("</section>")[0]
    cells = re.findall(r"<bdi[^>]*>(.*?)</bdi>|<td>([^<]*)</td>", models)
    assert [name or value for name, value in cells] == [
        *("scripted", "3", "30", "15", "7 ms", "7 ms", "0.0003 EUR", "–", "–"),
        *("gpt-5-2025-08-07", "2", "20", "10", "–", "–", "0.0001 EUR", "–", "–"),
        *("other-model", "1", "10", "5", "–", "–", "unknown", "–", "–"),
    ]

    listed = admin_client.get(reverse("admin:agent_sessions_session_changelist"))
    costs = re.findall(
        r'field-costs[^>]*><span class="as-figure" title="([^"]*)">([^<]*)', listed.content.decode()
    )
    assert sorted(costs) == sorted(
        [
            ("0.000315 EUR", "0.0003 EUR"),
            ("0.000125 EUR", "0.0001 EUR"),
            ("unknown", "unknown"),
            ("unknown", "unknown"),
        ]
    )
    conversation = reverse("admin:agent_sessions_session_change", args=[rows["openai"].pk])
    assert 'title="0.000125 EUR">0.0001 EUR</dd>' in admin_client.get(conversation).content.decode()

    found = admin_client.get("/api/sessions/?scope=all").json()["results"]
    assert {one["session_id"]: one["cost"] for one in found} == {
        "strands": "0.000315",
        "openai": "0.000125",
        "no price": None,
        "no model": None,
    }
    for name, cost in expected.items():
        url = f"/api/sessions/{rows[name].pk}/"
        text = None if cost is None else str(cost)
        assert admin_client.get(f"{url}?scope=all").json()["cost"] == text
        figures = admin_client.get(f"{url}usage/?scope=all").json()
        assert (figures["cost"], figures["currency"]) == (text, "EUR")
        assert [agent["cost"] for agent in figures["agents"]] == [text]


def test_without_prices_nothing_is_said_of_costs(spoken, settings, admin_client):
    settings.AGENT_SESSIONS = {}
    for name in ("usagerollup", "session"):
        page = admin_client.get(reverse(f"admin:agent_sessions_{name}_changelist"))
        assert "EUR" not in page.content.decode()
        assert "field-costs" not in page.content.decode()
        assert ">Cost" not in page.content.decode()


def test_a_fork_costs_nothing_until_it_is_continued(spoken, ada):
    store = SessionStore(owner=ada)
    fork = store.sessions.fork(store.get("openai"))
    usage.rebuild(until=datetime.now(UTC) + timedelta(days=1))

    assert (fork.usage.cost, fork.usage.input_tokens) == (None, None)
    assert usage.amount(usage.total(usage.daily(1)).cost) == STRANDS + OPENAI


def test_an_export_keeps_the_costs_of_the_time_and_the_models(spoken, settings, tmp_path, ada):
    file = tmp_path / "sessions.jsonl"
    file.write_text("".join(export_sessions(Session.objects.all())))
    before = {row.session_id: row.cost for row in Session.objects.all()}
    Session.objects.all().delete()
    settings.AGENT_SESSIONS = {"PRICES": {"gpt-5": {"input": 1, "output": 1}}}

    assert import_sessions(JsonLines(file), owner=ada).skips == 0

    assert {row.session_id: row.cost for row in Session.objects.all()} == before
    usage.rebuild(until=datetime.now(UTC) + timedelta(days=1))
    # As after any change of prices, usage is counted by the new ones: 2 × (10 + 5) millionths.
    assert usage.amount(usage.total(usage.daily(1)).cost) == Decimal("0.00003")
