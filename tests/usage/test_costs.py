"""Costs: agree with a sum made by hand, in the session's row and in the roll-ups."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.contrib.auth import get_user_model

from django_agent_sessions import SessionStore, conf, usage
from django_agent_sessions.models import Session
from django_agent_sessions.values.records import NewMessage, Usage

pytestmark = pytest.mark.django_db

PRICES = {
    "gpt-5": {"input": "1.25", "output": 10},
    "gpt-5-mini": {"input": Decimal("0.25"), "output": 2.0},
    "claude": {"input": 3, "output": 15},
}
SAID = [
    # model, input, output, cost in the prices' currency, made by hand
    ("gpt-5-2025-08-07", 1000, 200, "0.00325"),
    ("gpt-5-mini", 4000, 1, "0.001002"),
    ("claude-sonnet-4", None, 10, "0.00015"),
    ("claude-sonnet-4", 7, None, "0.000021"),
    ("unknown-model", 50, 50, None),
    ("claude-sonnet-4", None, None, None),
    ("", 5, 5, None),
]


def message(model, read, written):
    return NewMessage(
        {"role": "assistant", "content": "x"}, usage=Usage(0, read, written), model=model
    )


def say(store, together):
    agent = store.agents.open(store.open("s-1"))
    messages = [message(*row[:3]) for row in SAID]
    if together:
        store.append_many(agent, messages)
    else:
        for one in messages:
            store.append(agent, one)


@pytest.mark.parametrize("together", [True, False])
def test_costs_agree_with_a_sum_made_by_hand(settings, together):
    settings.AGENT_SESSIONS = {"PRICES": PRICES}
    user = get_user_model().objects.create(username="ada")
    store = SessionStore(owner=user)
    say(store, together)
    by_hand = sum(Decimal(cost) for *_, cost in SAID if cost)
    assert by_hand == Decimal("0.004423")

    assert usage.amount(store.open("s-1").usage.cost) == by_hand
    assert usage.amount(Session.objects.get().cost) == by_hand
    usage.roll_up(until=datetime.now(UTC) + timedelta(days=1))
    today = usage.today()
    models = usage.top("model", 1, sort="cost")
    assert usage.amount(usage.total(usage.daily(1)).cost) == by_hand
    assert [usage.amount(one.cost) for one in usage.top("agent", 1)] == [by_hand]
    assert [usage.amount(one.cost) for one in usage.by_owner(today)] == [by_hand]
    assert [(one.key, one.messages, usage.amount(one.cost)) for one in models] == [
        ("gpt-5-2025-08-07", 1, Decimal("0.00325")),
        ("gpt-5-mini", 1, Decimal("0.001002")),
        ("claude-sonnet-4", 3, Decimal("0.000171")),
        ("unknown-model", 1, None),
    ]
    assert [(one.input_tokens, one.output_tokens) for one in models][2] == (7, 10)


def test_without_prices_every_cost_is_unknown_until_a_rebuild_with_prices(settings):
    store = SessionStore()
    say(store, together=False)
    end = datetime.now(UTC) + timedelta(days=1)
    usage.roll_up(until=end)
    assert store.open("s-1").usage.cost is None
    assert [one.cost for one in usage.top("model", 1)] == [None] * 4
    settings.AGENT_SESSIONS = {"PRICES": PRICES}
    usage.rebuild(until=end)
    assert usage.amount(usage.total(usage.daily(1)).cost) == Decimal("0.004423")


@pytest.mark.parametrize(
    ("prices", "says"),
    [
        ([], "is of type list"),
        ({"": {"input": 1}}, "a key that is not the name of a model"),
        ({"m": 1}, "a price for 'm' that is not a dict"),
        ({"m": {}}, "a price for 'm' that is not a dict"),
        ({"m": {"cached": 1}}, "a price for 'm' that is not a dict"),
        ({"m": {"input": "free"}}, "a price for 'm' that is not a number"),
        ({"m": {"input": -1}}, "a price for 'm' that is not a number"),
        ({"m": {"output": float("nan")}}, "a price for 'm' that is not a number"),
        ({"m": {"output": True}}, "a price for 'm' that is not a number"),
    ],
)
def test_a_table_of_prices_is_checked(prices, says):
    [(problem, hint)] = conf.problems({"PRICES": prices})
    assert says in problem
    assert "gpt-5" in hint
    assert conf.problems({"PRICES": PRICES}) == []
