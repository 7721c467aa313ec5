"""The messages of a snapshot: ranges of positions, and messages with their own content."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


def add_range(references: list[Any], first: int, stop: int) -> None:
    """Append a range of positions."""
    if references and isinstance(references[-1], list) and references[-1][1] == first:
        references[-1] = [references[-1][0], stop]
    elif first < stop:
        references.append([first, stop])


def add_all(references: list[Any], others: Sequence[Any]) -> None:
    """Append references."""
    for item in others:
        if isinstance(item, list):
            add_range(references, *item)
        else:
            references.append(item)


def slice_references(references: Sequence[Any], first: int, stop: int) -> Iterator[Any]:
    """Iterate over the references of the messages from ``first`` up to ``stop``."""
    index = 0
    for item in references:
        count = item[1] - item[0] if isinstance(item, list) else 1
        low, high = max(first, index), min(stop, index + count)
        if low < high:
            if isinstance(item, list):
                yield [item[0] + low - index, item[0] + high - index]
            else:
                yield item
        index += count
        if index >= stop:
            return


def last_position(references: Sequence[Any]) -> int | None:
    """Return the highest position that is referenced."""
    spans = [item[1] - 1 if isinstance(item, list) else item.get("position") for item in references]
    return max((position for position in spans if position is not None), default=None)


def ranges_of(positions: Sequence[int]) -> list[Any]:
    """Convert positions to ranges."""
    ranges: list[Any] = []
    for position in positions:
        add_range(ranges, position, position + 1)
    return ranges
