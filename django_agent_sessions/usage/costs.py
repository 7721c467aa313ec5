"""The present costs of stored messages."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from django.db.models import QuerySet

from django_agent_sessions.models import SessionMessage
from django_agent_sessions.values.prices import cost_of
from django_agent_sessions.values.records import add_known
from django_agent_sessions.values.token_counts import TokenCounts


class AgentModel(NamedTuple):
    """An agent, by its id, and a model that answered it."""

    agent_id: str
    model: str


def costs_of_calls(
    messages: QuerySet[SessionMessage], prices: Mapping[str, Any], models: Collection[str]
) -> dict[AgentModel, int | None]:
    """Return the costs of models whose price may depend on the size and the time of a call."""
    costs: dict[AgentModel, int | None] = {}
    rows = messages.filter(model__in=models).order_by()
    values = rows.values_list("agent__agent_id", "model", "created_at", *TokenCounts._fields)
    for agent_id, model, at, *counts in values.iterator():
        key, cost = AgentModel(agent_id, model), cost_of(prices, model, TokenCounts(*counts), at)
        costs[key] = add_known(costs.get(key), cost)
    return costs
