"""The prices of models, and what tokens cost."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Protocol

from django_agent_sessions.conf import GENAI_PRICES, OTHER_MODELS

UNITS = 10**9
"""A cost is stored as a whole number of billionths, so that sums are exact on every database."""

_PER_TOKEN = UNITS // 10**6


class Tokens(Protocol):
    """Token counts: ``Usage`` and others. The input tokens include those of the cache."""

    @property
    def input_tokens(self) -> int | None: ...
    @property
    def output_tokens(self) -> int | None: ...
    @property
    def cache_read_tokens(self) -> int | None: ...
    @property
    def cache_write_tokens(self) -> int | None: ...


def cost_of(
    prices: Mapping[str, Any], model: str, tokens: Tokens, at: datetime | None = None
) -> int | None:
    """Return the cost of one call of a model in billionths; None if it is unknown.

    It is unknown if the model has no price, or no tokens were reported. ``at`` is the time of the
    call; by default now. Of several calls, sum up the costs: a price may depend on the size of one.
    """
    if not prices or not model or (tokens.input_tokens is None and tokens.output_tokens is None):
        return None
    read, written = tokens.cache_read_tokens or 0, tokens.cache_write_tokens or 0
    whole = max(tokens.input_tokens or 0, read + written)
    counts = {
        "input": whole - read - written,
        "output": tokens.output_tokens or 0,
        "cache_read": read,
        "cache_write": written,
    }
    price = _fixed_price(prices, model)
    if price is not None:
        cost = sum((_price_of(price, kind) * count for kind, count in counts.items()), Decimal(0))
        return int((cost * _PER_TOKEN).to_integral_value())
    if prices.get(OTHER_MODELS) != GENAI_PRICES:
        return None
    return _cost_by_genai_prices(model, {**counts, "input": whole}, at)


def has_varying_price(prices: Mapping[str, Any], model: str) -> bool:
    """Return whether the price of a model may depend on the size and the time of a call.

    Then the costs of calls are summed up; otherwise the tokens may be, which is faster.
    """
    return bool(model) and OTHER_MODELS in prices and _fixed_price(prices, model) is None


def _fixed_price(prices: Mapping[str, Any], model: str) -> Mapping[str, Any] | None:
    """Return the price of the longest name with which the model's name begins."""
    names = (name for name in prices if name != OTHER_MODELS and model.startswith(name))
    name = max(names, key=len, default=None)
    return None if name is None else prices[name]


def _price_of(price: Mapping[str, Any], kind: str) -> Decimal:
    """Return the price of a million tokens. Those of a cache cost what other input costs."""
    default = price.get("input", 0) if kind.startswith("cache_") else 0
    return decimal_of(price.get(kind, default))


def _cost_by_genai_prices(model: str, counts: Mapping[str, int], at: datetime | None) -> int | None:
    # Optional, and slow to import.
    from genai_prices import Usage, calc_price

    known, provider = _provider_of(model)
    if not known:
        return None
    usage = Usage(**{f"{kind}_tokens": count for kind, count in counts.items()})
    moment = None if at is None else at.astimezone(UTC)
    found = calc_price(usage, model, provider_id=provider, genai_request_timestamp=moment)
    return int((found.total_price * UNITS).to_integral_value())


@lru_cache(maxsize=1024)
def _provider_of(model: str) -> tuple[bool, str | None]:
    """Return whether genai-prices knows a model, and the provider by whose name it finds it.

    Names of Bedrock ("us.anthropic.claude-…") and LiteLLM ("anthropic/claude-…") need one.
    """
    from genai_prices import Usage, calc_price

    for provider in (None, "litellm" if "/" in model else "aws"):
        try:
            calc_price(Usage(input_tokens=1), model, provider_id=provider)
        except LookupError:
            continue
        return True, provider
    return False, None


def amount(cost: int | None) -> Decimal | None:
    """Return a stored cost in the currency of the prices.

    Args:
        cost: Billionths, as in ``Session.cost`` and the figures of usage; None if it is unknown.

    Returns:
        The exact amount; None if it is unknown.
    """
    return None if cost is None else Decimal(cost).scaleb(-9)


def amount_text(cost: int) -> str:
    """Return a stored cost as an exact decimal number without superfluous zeros."""
    return f"{Decimal(cost).scaleb(-9).normalize():f}"


def decimal_of(value: object) -> Decimal:
    """Return a price as a decimal number; a float as it is written."""
    return value if isinstance(value, Decimal) else Decimal(str(value))
