"""Reading of item rows by key in batches, for the tables of the OpenAI Agents SDK.

The keys of a conversation are read first, in the SDK's order, and then its rows by key. Therefore
the order is exactly the SDK's, no statement is open while a batch is imported, and concurrent
inserts and deletions do not shift batches.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any

from django_agent_sessions import conf
from django_agent_sessions.values.ids import MAX_ID_LENGTH

from .sources import Skipped, SourceMessage
from .sqlite_limits import LargeResultError
from .untrusted import excess_values

_FIRST_ROWS = 16
_MOST_ROWS = 500
_CHARACTERS = 4 * 1024 * 1024

MOST_BYTES = 32 * 1024 * 1024
"""Size of the rows of a batch, unless it is a single row."""


def each_item(
    places: Iterable[tuple[int, int]],
    fetch: Callable[[Sequence[int]], Iterable[Sequence[Any]]],
    table: str,
    *,
    zone: tzinfo = UTC,
    shared: bool = False,
) -> Iterator[SourceMessage | Skipped]:
    """Yield the items of a conversation, read in batches of a few megabytes.

    ``fetch`` reads the key, the JSON and the time of creation of the items with these keys.
    """
    keys, branches = array("q"), array("q")
    for key, branch in places:
        keys.append(key)
        branches.append(branch)
    start, size = 0, _FIRST_ROWS
    while start < len(keys):
        batch = keys[start : start + size]
        try:
            found = {key: (data, made) for key, data, made in fetch(sorted(set(batch)))}
        except LargeResultError:
            size = max(1, size // 8)
            continue
        for key, branch in zip(batch, branches[start : start + size], strict=True):
            if key not in found:
                continue
            data, made = found[key]
            payload = parse_object(data)
            if isinstance(payload, str):
                yield Skipped(f"{table} id={key}", payload)
                continue
            yield SourceMessage(
                payload,
                created_at=parse_database_time(made, zone),
                branch=branch,
                shared=str(key) if shared else "",
            )
        start += size
        characters = sum(_length(data) for data, _ in found.values())
        size = max(1, min(_MOST_ROWS, _CHARACTERS * len(batch) // max(1, characters)))


def parse_database_time(value: object, zone: tzinfo = UTC) -> datetime | None:
    """Return the time for a driver's value, or None."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    try:
        return (value if value.tzinfo else value.replace(tzinfo=zone)).astimezone(UTC)
    except OverflowError:
        return None


def session_location(table: str, name: str) -> str:
    """Return the location of a session for a report."""
    return f"{table} session_id={name[:MAX_ID_LENGTH]!r}"


def parse_object(data: object) -> dict[str, Any] | str:
    """Return the JSON object in a column, or the reason why it cannot be read."""
    if data is None:
        return "it cannot be read"
    try:
        text = _text(data)
        limit = conf.get_settings().MAX_PAYLOAD_BYTES
        if most := excess_values(text.encode("utf-8", "surrogatepass"), limit):
            return f"it has more than {most} values"
        payload = json.loads(text)
    # RecursionError: nested too deeply. ValueError: also for an integer with too many digits.
    except (RecursionError, ValueError):
        return "it is not JSON"
    return payload if isinstance(payload, dict) else "it is JSON, but not an object"


def _text(data: object) -> str:
    if isinstance(data, bytes | memoryview):
        return bytes(data).decode()
    if isinstance(data, str):
        return data
    raise ValueError("The column contains neither text nor bytes.")


def _length(data: object) -> int:
    return len(data) if isinstance(data, str | bytes | memoryview) else 0
