"""Redacting a copy as its original was redacted, at the same places."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_SIGNIFICANT = 6


def follow(live: Any, before: Any, after: Any) -> Any:
    """Applies to a copy that went on changing what was redacted in its original."""
    if before == after:
        return live
    if live == before:
        return after
    if isinstance(live, dict) and isinstance(before, dict) and isinstance(after, dict):
        # A key that was redacted has another name now, at the same place.
        if len(before) != len(after):
            return live
        names = dict(zip(before, after, strict=True))
        return {
            names.get(key, key): follow(item, before[key], after[names[key]])
            if key in before
            else item
            for key, item in live.items()
        }
    if isinstance(live, list) and isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            return live
        known = zip(before, after, strict=True)
        return [
            follow(item, *pair) if pair is not None else item
            for item, pair in zip(live, [*known, *[None] * len(live)], strict=False)
        ]
    return live


def significant(secrets: Iterable[str]) -> set[str]:
    """Keeps the texts that are long enough to be looked for wherever they may stand.

    A redacted "10" or "yes" is part of much that has nothing to do with it.
    """
    return {secret for secret in secrets if len(secret.strip()) >= _SIGNIFICANT}
