"""The tokens that runs report, for the items that a model wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from agents import RunContextWrapper
from agents import Usage as ReportedUsage

from django_agent_sessions.values.records import Usage
from django_agent_sessions.values.token_counts import token_counts

_Context = RunContextWrapper[Any]


class RunUsage:
    """What the runs of a session object have reported, and how much of it is stored."""

    def __init__(self) -> None:
        self._stored: WeakKeyDictionary[_Context, Usage] = WeakKeyDictionary()

    def begin(self, wrapper: _Context | None) -> bool:
        """Record what a run reports at its beginning: a resumed one continues its totals.

        Returns whether the run was unknown.
        """
        begins = wrapper is not None and wrapper not in self._stored
        if wrapper is not None and begins:
            self._stored[wrapper] = spent_of(wrapper.usage)
        return begins

    def mark_stored(self, wrapper: _Context | None, spent: Usage | None) -> None:
        """Record that a part of what a run has reported is stored."""
        self.begin(wrapper)
        if wrapper is not None and spent is not None:
            self._stored[wrapper] += spent

    def of_items(self, items: Sequence[Any], wrapper: _Context | None) -> tuple[int, Usage] | None:
        """Return the item that the model wrote last, by its index, and what was not yet stored."""
        spent = self.not_stored(wrapper)
        if spent is None or max(spent.input_tokens or 0, spent.output_tokens or 0) <= 0:
            # Not every provider reports its usage.
            return None
        indexes = [index for index, item in enumerate(items) if _is_written_by_model(item)]
        return (indexes or [len(items) - 1])[-1], spent

    def not_stored(self, wrapper: _Context | None) -> Usage | None:
        """Return what a run has reported and is not yet stored; None for an unknown run."""
        if not isinstance(wrapper, RunContextWrapper) or wrapper not in self._stored:
            return None
        reported, stored = spent_of(wrapper.usage).tokens, self._stored[wrapper].tokens
        return Usage.of_tokens(map(_increase, stored, reported))


def spent_of(usage: ReportedUsage) -> Usage:
    """Return the tokens that the SDK reports, whose input includes those of a cache."""
    details = usage.input_tokens_details
    counts = token_counts(
        usage.input_tokens or 0,
        usage.output_tokens or 0,
        usage.total_tokens,
        getattr(details, "cached_tokens", None),
        # Missing in older versions.
        getattr(details, "cache_write_tokens", None),
    )
    return Usage.of_tokens(counts)


def _increase(stored: int | None, reported: int | None) -> int | None:
    return None if reported is None else reported - (stored or 0)


def _is_written_by_model(item: Any) -> bool:
    if not isinstance(item, dict):
        return False
    kind = item.get("type")
    return item.get("role") == "assistant" or (isinstance(kind, str) and kind.endswith("_call"))
