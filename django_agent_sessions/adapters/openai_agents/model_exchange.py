"""Which items of a conversation the model of a run has seen.

An application may withhold items from a model, with a ``session_input_callback`` or a
``call_model_input_filter``. The Runner records digests of what a model was really sent, and of what
it answered, for the SDK's own compaction. No public name of the SDK has both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .item_links import kind_of
from .model_history import SentItem

try:
    from agents.run_internal.items import digest_input_item
except ImportError:
    # An older release, which records nothing.
    digest_input_item = None  # type: ignore[assignment] # not of this type, but never called


def seen_digests(wrapper: Any) -> tuple[str, ...] | None:
    """Return the digests of the last exchange with the model; None if the SDK records none."""
    exchange = getattr(wrapper, "_session_compaction_model_exchange", None)
    if exchange is None or digest_input_item is None:
        return None
    digests: tuple[str, ...] = exchange[0]
    return digests


def count_seen(sent: Sequence[SentItem], digests: Sequence[str]) -> int:
    """Return how many of the last items the model has seen, in their order.

    It may have seen others between them, such as a reminder that a callback added.
    """
    remaining = reversed(digests)
    for count, (_, item) in enumerate(reversed(sent)):
        known = _digests(item)
        if not any(digest in known for digest in remaining):
            return count
    return len(sent)


def _digests(item: Any) -> set[str | None]:
    forms = [item]
    if kind_of(item) == "reasoning":
        # A run may send its reasoning without ids.
        forms.append({name: value for name, value in item.items() if name != "id"})
    return {digest_input_item(form) for form in forms}
