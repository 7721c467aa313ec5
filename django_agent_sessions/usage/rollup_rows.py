"""The counts of one batch, and adding them to the roll-up rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import groupby
from typing import NamedTuple

from django.db import connections
from django.utils import timezone

from django_agent_sessions.models import UsageRollup

_CHUNK = 500


class RollupKey(NamedTuple):
    """The unique key of a roll-up row."""

    dimension: str
    period: date
    key: str


@dataclass(slots=True)
class Counts:
    """The counts that one batch adds to one row."""

    sessions: int = 0
    messages: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    latencies: Counter[str] = field(default_factory=Counter)


Tallies = defaultdict[RollupKey, Counts]
"""The counts of one batch, by row."""


def day_of(moment: datetime) -> date:
    """Return the day (in UTC) on which a time is counted."""
    return (moment if timezone.is_naive(moment) else moment.astimezone(UTC)).date()


def add_to_rollups(alias: str, tallies: Tallies) -> None:
    """Add counts to the existing roll-up rows, and create the others.

    The caller holds the cursor's lock, so that no other process writes in between.
    """
    rows = [
        _sum(existing.get(key), key, tallies[key])
        for keys in _chunks(sorted(tallies))
        for existing in [_existing(alias, keys)]
        for key in keys
    ]
    has_conflict_target = connections[alias].features.supports_update_conflicts_with_target
    UsageRollup.objects.using(alias).bulk_create(
        rows,
        batch_size=_CHUNK,
        update_conflicts=True,
        update_fields=["sessions", "messages", "input_tokens", "output_tokens", "latencies"],
        unique_fields=["dimension", "period", "key"] if has_conflict_target else None,
    )


def _chunks(keys: Sequence[RollupKey]) -> Iterator[Sequence[RollupKey]]:
    for _, group in groupby(keys, lambda row: (row.dimension, row.period)):
        same_period = list(group)
        for start in range(0, len(same_period), _CHUNK):
            yield same_period[start : start + _CHUNK]


def _existing(alias: str, keys: Sequence[RollupKey]) -> dict[RollupKey, UsageRollup]:
    """Read the existing rows of one dimension and period, with a lock as for the cursor."""
    rows = UsageRollup.objects.using(alias).filter(
        dimension=keys[0].dimension,
        period=keys[0].period,
        key__in=[row.key for row in keys],
    )
    return {RollupKey(row.dimension, row.period, row.key): row for row in rows.select_for_update()}


def _sum(existing: UsageRollup | None, key: RollupKey, tally: Counts) -> UsageRollup:
    row = UsageRollup(dimension=key.dimension, period=key.period, key=key.key)
    previous = row if existing is None else existing
    row.sessions = previous.sessions + tally.sessions
    row.messages = previous.messages + tally.messages
    row.input_tokens = previous.input_tokens + tally.input_tokens
    row.output_tokens = previous.output_tokens + tally.output_tokens
    row.latencies = dict(Counter(previous.latencies) + tally.latencies)
    return row
