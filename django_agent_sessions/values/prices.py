"""The prices of models, and what tokens cost."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

UNITS = 10**9
"""A cost is stored as a whole number of billionths, so that sums are exact on every database."""

_PER_TOKEN = UNITS // 10**6


def cost_of(
    prices: Mapping[str, Mapping[str, Any]],
    model: str,
    input_tokens: int | None,
    output_tokens: int | None,
) -> int | None:
    """Return the cost of a model's tokens in billionths; None if it is unknown.

    It is unknown if the model has no price, or no tokens were reported.
    """
    if not model or (input_tokens is None and output_tokens is None):
        return None
    price = _price_of(prices, model)
    if price is None:
        return None
    counts = zip(("input", "output"), (input_tokens, output_tokens), strict=True)
    parts = ((count or 0) * decimal_of(price.get(side, 0)) for side, count in counts)
    cost = sum(parts, Decimal(0))
    return int((cost * _PER_TOKEN).to_integral_value())


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


def _price_of(prices: Mapping[str, Mapping[str, Any]], model: str) -> Mapping[str, Any] | None:
    """Return the price of the longest name with which the model's name begins."""
    name = max((name for name in prices if model.startswith(name)), key=len, default=None)
    return None if name is None else prices[name]
