"""What a batch adds to the rows of figures, and how it gets there."""

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


class Row(NamedTuple):
    """The key of a row of figures."""

    dimension: str
    period: date
    key: str


@dataclass(slots=True)
class Tally:
    """What one batch adds to one row."""

    sessions: int = 0
    messages: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    latencies: Counter[str] = field(default_factory=Counter)


Tallies = defaultdict[Row, Tally]
"""What one batch adds, by row."""


def day_of(moment: datetime) -> date:
    """Tells to which day a moment is counted."""
    return (moment if timezone.is_naive(moment) else moment.astimezone(UTC)).date()


def add(alias: str, tallies: Tallies) -> None:
    """Adds to the rows that are there, and makes the others.

    The caller holds the cursor's lock, so that nobody else writes between the reading and the
    writing.
    """
    rows = [
        _added(there.get(key), key, tallies[key])
        for keys in _chunks(sorted(tallies))
        for there in [_existing(alias, keys)]
        for key in keys
    ]
    targeted = connections[alias].features.supports_update_conflicts_with_target
    UsageRollup.objects.using(alias).bulk_create(
        rows,
        batch_size=_CHUNK,
        update_conflicts=True,
        update_fields=["sessions", "messages", "input_tokens", "output_tokens", "latencies"],
        unique_fields=["dimension", "period", "key"] if targeted else None,
    )


def _chunks(keys: Sequence[Row]) -> Iterator[Sequence[Row]]:
    for _, group in groupby(keys, lambda row: (row.dimension, row.period)):
        same_period = list(group)
        for start in range(0, len(same_period), _CHUNK):
            yield same_period[start : start + _CHUNK]


def _existing(alias: str, keys: Sequence[Row]) -> dict[Row, UsageRollup]:
    """The rows of one dimension and period that are there; read with a lock, as the cursor is."""
    rows = UsageRollup.objects.using(alias).filter(
        dimension=keys[0].dimension,
        period=keys[0].period,
        key__in=[row.key for row in keys],
    )
    return {Row(row.dimension, row.period, row.key): row for row in rows.select_for_update()}


def _added(there: UsageRollup | None, key: Row, tally: Tally) -> UsageRollup:
    row = UsageRollup(dimension=key.dimension, period=key.period, key=key.key)
    before = row if there is None else there
    row.sessions = before.sessions + tally.sessions
    row.messages = before.messages + tally.messages
    row.input_tokens = before.input_tokens + tally.input_tokens
    row.output_tokens = before.output_tokens + tally.output_tokens
    row.latencies = dict(Counter(before.latencies) + tally.latencies)
    return row
