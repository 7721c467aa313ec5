"""Applying the redaction of an original to a copy of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_SHORTEST = 6


def reapply_redaction(live: Any, before: Any, after: Any) -> Any:
    """Apply the difference of ``before`` and ``after`` to a copy that has changed since."""
    if before == after:
        return live
    if live == before:
        return after
    if isinstance(live, dict) and isinstance(before, dict) and isinstance(after, dict):
        # A redacted key has a new name at the same position.
        if len(before) != len(after):
            return live
        names = dict(zip(before, after, strict=True))
        return {
            names.get(key, key): reapply_redaction(item, before[key], after[names[key]])
            if key in before
            else item
            for key, item in live.items()
        }
    if isinstance(live, list) and isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            return live
        pairs = zip(before, after, strict=True)
        return [
            reapply_redaction(item, *pair) if pair is not None else item
            for item, pair in zip(live, [*pairs, *[None] * len(live)], strict=False)
        ]
    return live


def searchable_texts(secrets: Iterable[str]) -> set[str]:
    """Return the texts that are long enough to be searched everywhere.

    A short text such as "10" or "yes" also occurs in unrelated content.
    """
    return {secret for secret in secrets if len(secret.strip()) >= _SHORTEST}
