"""Tokens of a prompt cache: as providers report them, by both SDKs, and what they cost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html import unescape
from types import SimpleNamespace
from typing import Any

import pytest
from agents import Agent, ModelResponse, Runner
from agents import Usage as ReportedUsage
from agents.extensions.memory import AdvancedSQLiteSession
from django.urls import reverse
from genai_prices import calc_price, extract_usage
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails
from strands import Agent as StrandsAgent
from strands.models.openai import OpenAIModel

from django_agent_sessions import SessionStore, conf, usage
from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession, DjangoSession
from django_agent_sessions.adapters.strands import DjangoSessionManager
from django_agent_sessions.db.bridge import arun_orm
from django_agent_sessions.interchange import import_sessions
from django_agent_sessions.interchange.openai_advanced import OpenAIAdvancedSQLiteSource
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.values.owners import NOBODY
from django_agent_sessions.values.prices import cost_of
from django_agent_sessions.values.records import NewMessage, Usage
from django_agent_sessions.values.token_counts import TokenCounts, token_counts
from tests.adapters.openai_agents import scripted as openai_scripted
from tests.adapters.strands import scripted as strands_scripted
from tests.integrity.running import check

pytestmark = pytest.mark.django_db(transaction=True)

BY_PACKAGE = {"PRICES": {"*": "genai-prices"}, "CURRENCY": "USD"}

# What each provider answers, in its own words: nine tenths of the prompt are cached.
OPENAI = {
    "model": "gpt-5-2025-08-07",
    "usage": {
        "input_tokens": 20_000,
        "input_tokens_details": {"cached_tokens": 18_000},
        "output_tokens": 900,
        "output_tokens_details": {"reasoning_tokens": 400},
        "total_tokens": 20_900,
    },
}
ANTHROPIC = {
    "model": "claude-sonnet-4-5-20250929",
    "usage": {
        "input_tokens": 1_200,
        "cache_read_input_tokens": 18_000,
        "cache_creation_input_tokens": 800,
        "output_tokens": 900,
    },
}
GOOGLE = {
    "modelVersion": "gemini-2.5-pro",
    "usageMetadata": {
        "promptTokenCount": 20_000,
        "cachedContentTokenCount": 18_000,
        "candidatesTokenCount": 500,
        "thoughtsTokenCount": 400,
        "totalTokenCount": 20_900,
    },
}
BEDROCK = {
    "usage": {
        "inputTokens": 1_200,
        "outputTokens": 900,
        "totalTokens": 20_900,
        "cacheReadInputTokens": 18_000,
        "cacheWriteInputTokens": 800,
    },
}
# What Strands makes of them in a message, by its providers `anthropic` and `gemini`.
BY_STRANDS = {
    "anthropic": {
        "inputTokens": 1_200,
        "outputTokens": 900,
        "totalTokens": 20_900,
        "cacheReadInputTokens": 18_000,
        "cacheWriteInputTokens": 800,
    },
    "google": {
        "inputTokens": 20_000,
        "outputTokens": 900,
        "totalTokens": 20_900,
        "cacheReadInputTokens": 18_000,
    },
    "aws": BEDROCK["usage"],
}
MODELS = {
    "openai": "gpt-5-2025-08-07",
    "anthropic": "claude-sonnet-4-5-20250929",
    "google": "gemini-2.5-pro",
    "aws": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
}
ANSWERS: dict[str, Any] = {
    "openai": OPENAI,
    "anthropic": ANTHROPIC,
    "google": GOOGLE,
    "aws": BEDROCK,
}
# By hand, from the providers' lists of prices per million: input, cached, written, output.
BY_HAND = {
    # 2,000 × 1.25 + 18,000 × 0.125 + 900 × 10
    "openai": Decimal("0.01375"),
    # 1,200 × 3 + 18,000 × 0.30 + 800 × 3.75 + 900 × 15
    "anthropic": Decimal("0.0255"),
    # 2,000 × 1.25 + 18,000 × 0.125 + 900 × 10
    "google": Decimal("0.01375"),
    # As Anthropic's own, and a tenth more in a region.
    "aws": Decimal("0.0255"),
}


def price_of_package(provider: str, calls: int = 1) -> Decimal:
    """What genai-prices makes of the provider's answer by itself."""
    flavor = "responses" if provider == "openai" else "default"
    found = extract_usage(ANSWERS[provider], provider_id=provider, api_flavor=flavor)
    price = calc_price(found.usage, MODELS[provider], provider_id=provider)
    return calls * Decimal(price.total_price)


class ReportingModel(openai_scripted.ScriptedModel):
    """Reports what OpenAI answers, with the cached tokens among the input tokens."""

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        response = await super().get_response(*args, **kwargs)
        response.usage = reported_by_openai()
        return response

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        async for event in super().stream_response(*args, **kwargs):
            if event.type == "response.completed" and event.response.usage is not None:
                found = reported_by_openai()
                event.response.usage.input_tokens = found.input_tokens
                event.response.usage.output_tokens = found.output_tokens
                event.response.usage.total_tokens = found.total_tokens
                event.response.usage.input_tokens_details = found.input_tokens_details
            yield event


def reported_by_openai() -> ReportedUsage:
    told: Any = OPENAI["usage"]
    return ReportedUsage(
        requests=1,
        input_tokens=told["input_tokens"],
        output_tokens=told["output_tokens"],
        total_tokens=told["total_tokens"],
        input_tokens_details=InputTokensDetails(cached_tokens=18_000, cache_write_tokens=0),
        output_tokens_details=OutputTokensDetails(reasoning_tokens=400),
    )


def speak(provider: str, monkeypatch: Any, owner: Any = NOBODY) -> None:
    """Has one conversation of one turn with a model of a provider."""
    if provider == "openai":
        session = DjangoSession("s", owner=owner, model=MODELS["openai"])
        assistant = Agent(name="assistant", model=ReportingModel(["Hello."]))
        asyncio.run(Runner.run(assistant, "Hi", session=session))
        return
    monkeypatch.setattr(strands_scripted, "USAGE", BY_STRANDS[provider])
    model = strands_scripted.ScriptedModel(["Hello."])
    monkeypatch.setattr(model, "get_config", lambda: {"model_id": MODELS[provider]})
    manager = DjangoSessionManager("s", owner=owner)
    StrandsAgent(model=model, session_manager=manager, callback_handler=None)("Hi")


@pytest.mark.parametrize("provider", list(ANSWERS))
def test_a_provider_s_report_costs_what_genai_prices_says(provider, settings, monkeypatch):
    settings.AGENT_SESSIONS = BY_PACKAGE
    speak(provider, monkeypatch)

    cost = usage.amount(Session.objects.get().cost)
    assert cost == price_of_package(provider)
    assert cost is not None
    # To the cent also of what the provider's list says.
    assert abs(100 * cost - 100 * BY_HAND[provider]) < Decimal("0.3")
    row = SessionMessage.objects.get(input_tokens__isnull=False)
    writes = 800 if provider in ("anthropic", "aws") else row.cache_write_tokens or 0
    assert (row.input_tokens, row.output_tokens) == (20_000, 900)
    assert (row.cache_read_tokens, row.cache_write_tokens or 0) == (18_000, writes)
    usage.roll_up(until=datetime.now(UTC) + timedelta(days=1))
    figures = usage.total(usage.daily(1))
    assert usage.amount(figures.cost) == cost
    assert (figures.input_tokens, figures.cache_read_tokens) == (20_000, 18_000)


def test_a_table_of_costs_of_four_providers_is_that_of_genai_prices(settings, monkeypatch):
    settings.AGENT_SESSIONS = BY_PACKAGE
    table = {}
    for provider in ANSWERS:
        speak(provider, monkeypatch)
        session = Session.objects.get()
        table[provider] = round(100 * (usage.amount(session.cost) or Decimal(0)), 2)
        session.delete()

    assert table == {name: round(100 * price_of_package(name), 2) for name in ANSWERS}
    assert table["openai"] == Decimal("1.38")


@pytest.mark.parametrize(
    ("report", "stored"),
    [
        # input, output, total, read, written
        ((10, 5, 15, None, None), (10, 5, None, None)),
        # OpenAI's SDK reports zeros for each provider.
        ((10, 5, 15, 0, 0), (10, 5, None, None)),
        ((100, 5, 105, 90, 0), (100, 5, 90, 0)),
        ((10, 5, 105, 90, None), (100, 5, 90, None)),
        ((10, 5, 115, 90, 10), (110, 5, 90, 10)),
        # A total without the cached tokens, of which there are more than of all.
        ((10, 5, 15, 90, None), (100, 5, 90, None)),
        ((None, 5, None, 90, None), (90, 5, 90, None)),
        ((10, None, None, None, None), (10, None, None, None)),
        # A sum over two providers, one of each kind.
        ((110, 10, 210, 180, None), (200, 10, 180, None)),
    ],
)
def test_counts_beside_the_input_and_in_it_are_stored_in_it(report, stored):
    assert token_counts(*report) == TokenCounts(*stored)


def test_strands_own_openai_provider_reports_them_in_the_input():
    model = OpenAIModel(client_args={"api_key": "none"}, model_id="gpt-5")
    told = SimpleNamespace(
        prompt_tokens=100,
        completion_tokens=5,
        total_tokens=105,
        prompt_tokens_details=SimpleNamespace(cached_tokens=90, cache_write_tokens=4),
    )
    reported = model.format_chunk({"chunk_type": "metadata", "data": told})["metadata"]["usage"]

    store = SessionStore()
    agent = store.agents.open(store.open("s"), dialect="strands")
    store.append(agent, {"role": "assistant", "content": [], "metadata": {"usage": reported}})

    assert store.sessions.usage("s").tokens == TokenCounts(100, 5, 90, 4)


async def test_a_streamed_run_of_openai_agents_has_them():
    session = DjangoSession("s", model="gpt-5")
    assistant = Agent(name="assistant", model=ReportingModel(["One.", "Two."]))
    for text in ("1", "2"):
        streamed = Runner.run_streamed(assistant, text, session=session)
        async for _ in streamed.stream_events():
            pass

    spent = (await SessionStore().aget("s")).usage
    assert spent.tokens[::2] == (40_000, 36_000)


async def test_a_stored_usage_of_a_run_counts_them_once():
    session = AdvancedDjangoSession("s", model="gpt-5")
    assistant = Agent(name="assistant", model=ReportingModel(["One."]))
    result = await Runner.run(assistant, "1", session=session)
    await session.store_run_usage(result)
    other = AdvancedDjangoSession("s", model="gpt-5")
    # A session object that does not know the run.
    await other.store_run_usage(result)

    spent = (await SessionStore().aget("s")).usage
    assert spent.tokens == TokenCounts(20_000, 900, 18_000, 0)


async def test_a_stored_usage_of_a_run_of_which_nothing_was_counted_has_them():
    session = AdvancedDjangoSession("s")
    await session.add_items([{"role": "user", "content": "Hi"}])
    result = await Runner.run(
        Agent(name="assistant", model=ReportingModel(["One."])), "not stored here"
    )
    await AdvancedDjangoSession("s").store_run_usage(result)

    spent = (await SessionStore().aget("s")).usage
    assert spent.tokens == TokenCounts(20_000, 900, 18_000, 0)


PRICES = {"gpt-5": {"input": 1, "output": 10, "cache_read": "0.1", "cache_write": "1.25"}}
CACHED = Usage(0, 1000, 100, None, 0, 900, 50)


@pytest.mark.parametrize(
    ("prices", "expected"),
    [
        # 50 × 1 + 900 × 0.1 + 50 × 1.25 + 100 × 10
        (PRICES, "0.0012025"),
        # Without prices for them, they cost what other input costs.
        ({"gpt-5": {"input": 1, "output": 10}}, "0.002"),
        ({"gpt-5": {"output": 10}}, "0.001"),
        ({"gpt-4": {"input": 1}}, None),
        # A project's own price is on top.
        ({"*": "genai-prices", **PRICES}, "0.0012025"),
    ],
)
def test_own_prices_by_kind_of_token(prices, expected):
    assert usage.amount(cost_of(prices, "gpt-5-2025", CACHED)) == (expected and Decimal(expected))


def test_an_own_price_of_a_longer_name_leaves_the_others_to_the_package():
    prices = {"*": "genai-prices", "gpt-5-mini": {"input": 1}}

    assert usage.amount(cost_of(prices, "gpt-5-mini", Usage(0, 10**6, 0))) == 1
    assert usage.amount(cost_of(prices, "gpt-5", Usage(0, 10**6, 0))) == Decimal("1.25")
    assert cost_of(prices, "a model of our own", Usage(0, 10, 10)) is None
    # More of a cache than of all: nothing is raised, and no cost is negative.
    assert usage.amount(cost_of(prices, "gpt-5", Usage(0, 1, 0, None, 0, 10**6, 0))) == Decimal(
        "0.125"
    )


def test_rows_from_before_the_columns_cost_what_they_did(settings):
    settings.AGENT_SESSIONS = {"PRICES": PRICES}
    row = SessionMessage(input_tokens=1000, output_tokens=100, model="gpt-5")

    assert usage.amount(cost_of(PRICES, "gpt-5", row)) == Decimal("0.002")


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({"PRICES": {"*": {"input": 1}}}, "that is not 'genai-prices'"),
        ({"PRICES": {"*": "genai-prices"}, "CURRENCY": "EUR"}, "is not that of genai-prices"),
    ],
)
def test_prices_of_the_package_are_checked(raw, says):
    [(problem, _)] = conf.problems(raw)
    assert says in problem
    assert conf.problems(BY_PACKAGE) == []


def test_without_the_package_the_check_names_the_extra(monkeypatch):
    monkeypatch.setattr(conf, "find_spec", lambda name: None)

    [(problem, _)] = conf.problems(BY_PACKAGE)
    assert "django-agent-sessions[prices]" in problem


@pytest.fixture
def cached(settings, ada, monkeypatch):
    settings.AGENT_SESSIONS = BY_PACKAGE
    speak("aws", monkeypatch, owner=ada)
    usage.roll_up(until=datetime.now(UTC) + timedelta(days=1))
    return Session.objects.get()


def test_the_api_has_them_by_kind(cached, admin_client):
    expected = {
        "input_tokens": 20_000,
        "output_tokens": 900,
        "cache_read_tokens": 18_000,
        "cache_write_tokens": 800,
    }
    url = f"/api/sessions/{cached.pk}/"
    [listed] = admin_client.get("/api/sessions/?scope=all").json()["results"]
    figures = admin_client.get(f"{url}usage/?scope=all").json()
    messages = admin_client.get(f"{url}messages/?scope=all").json()["results"]
    for found in (listed, figures, figures["agents"][0], messages[1]):
        assert {name: found[name] for name in expected} == expected
    assert Decimal(figures["cost"]) == Decimal(listed["cost"]) == price_of_package("aws")


def test_the_admin_shows_them_by_kind(cached, admin_client):
    shown = "20,000 (18,000 from cache, 800 to cache)"
    listed = admin_client.get(reverse("admin:agent_sessions_session_changelist"))
    page = admin_client.get(reverse("admin:agent_sessions_usagerollup_changelist"), {"days": 7})
    opened = admin_client.get(reverse("admin:agent_sessions_session_change", args=[cached.pk]))

    assert f'title="{shown}"' in listed.content.decode()
    text = unescape(page.content.decode())
    assert "<dt>Of these read from cache</dt>" in text
    assert f"<td>{shown}</td>" in text
    # Of the session and of its message.
    assert opened.content.decode().count(shown) == 2


def test_a_fork_a_rebuild_and_the_check_know_them(cached):
    before = usage.total(usage.daily(1))
    store = SessionStore(owner=cached.owner)
    store.sessions.fork(store.get("s"))
    usage.rebuild(until=datetime.now(UTC) + timedelta(days=1))
    after = usage.total(usage.daily(1))

    assert (after.cache_read_tokens, after.cost) == (before.cache_read_tokens, before.cost)
    assert check()[0] == []
    Session.objects.filter(pk=cached.pk).update(cache_read_tokens=5)
    [found] = check()[0]
    assert (found["code"], found["detail"]) == ("counters", "cache_read_tokens")
    check("--fix")
    assert Session.objects.get(pk=cached.pk).cache_read_tokens == 18_000


def test_a_message_from_before_the_columns_is_healthy(cached):
    row = SessionMessage.objects.get(input_tokens__isnull=False)
    old = {"cache_read_tokens": None, "cache_write_tokens": None}
    SessionMessage.objects.filter(pk=row.pk).update(input_tokens=1_200, **old)
    Session.objects.update(input_tokens=1_200, **old)
    usage.rebuild(until=datetime.now(UTC) + timedelta(days=1))

    assert check()[0] == []


def test_a_price_that_depends_on_the_size_of_a_call_is_not_that_of_the_sum(
    settings, ada, admin_client
):
    settings.AGENT_SESSIONS = BY_PACKAGE
    store = SessionStore(owner=ada)
    agent = store.agents.open(store.open("s"))
    for _ in range(3):
        spent = Usage(1, 150_000, 10)
        store.append(agent, NewMessage({"role": "assistant"}, usage=spent, model="gemini-2.5-pro"))

    row = Session.objects.get()
    figures = admin_client.get(f"/api/sessions/{row.pk}/usage/?scope=all").json()
    assert Decimal(figures["cost"]) == usage.amount(row.cost) == Decimal("0.5628")


async def test_they_are_imported_from_the_sdk_s_own_store(tmp_path):
    path = tmp_path / "agents.db"
    theirs = AdvancedSQLiteSession(session_id="s", db_path=path, create_tables=True)
    assistant = Agent(name="assistant", model=ReportingModel(["One.", "Two."]))
    for text in ("1", "2"):
        await theirs.store_run_usage(await Runner.run(assistant, text, session=theirs))
    theirs.close()

    await arun_orm(import_sessions, OpenAIAdvancedSQLiteSource(path))

    spent = (await SessionStore().aget("s")).usage
    assert spent.tokens[:3] == (40_000, 1_800, 36_000)
