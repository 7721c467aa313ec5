"""What the readers of the OpenAI Agents SDK's tables share: rows of items, read by key in parts.

Each conversation's keys are read first, in the SDK's order, and then its rows by these keys. So the
order is exactly the SDK's, whatever its precision of time; no statement is open while a part is
imported; and what is added or taken away meanwhile moves nothing. A key is eight bytes.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from typing import Generic, NamedTuple, Protocol, TypeVar

from django_agent_sessions import transcripts
from django_agent_sessions.ids import MAX_ID_LENGTH
from django_agent_sessions.payloads import refuse_constant

from .sources import Skipped, SourceAgent, SourceMessage

AGENT_ID = "default"
"""What the one agent of an OpenAI session is called; ``DjangoSession`` calls it the same."""

NAMES = 500
"""How many sessions are read at once."""

_FIRST_ROWS = 16
_MOST_ROWS = 500
_CHARACTERS = 4 * 1024 * 1024


class ItemRow(NamedTuple):
    """A row of a table of items."""

    key: int
    data: object
    created_at: object


class Closable(Protocol):
    """Something that holds connections."""

    def close(self) -> None:
        """Gives them back."""
        ...


C = TypeVar("C", bound=Closable)


class Held(Generic[C]):
    """Opens something for the time it is used, however often that is nested, and closes it then."""

    def __init__(self, start: Callable[[], C]) -> None:
        self._start = start
        self._opened: C | None = None
        self._users = 0

    @contextmanager
    def use(self) -> Iterator[C]:
        """Lends it."""
        if self._opened is None:
            self._opened = self._start()
        opened = self._opened
        self._users += 1
        try:
            yield opened
        finally:
            self._users -= 1
            if not self._users:
                self._opened = None
                opened.close()


class Messages:
    """Messages that are read when they are asked for, and again if they are asked for again."""

    def __init__(self, read: Callable[[], Iterator[SourceMessage | Skipped]]) -> None:
        self._read = read

    def __iter__(self) -> Iterator[SourceMessage | Skipped]:
        return self._read()


def agent(read: Callable[[], Iterator[SourceMessage | Skipped]]) -> SourceAgent:
    """Describes the one agent of a session."""
    return SourceAgent(AGENT_ID, transcripts.OPENAI, Messages(read))


def each_message(
    places: Iterable[tuple[int, int]],
    fetch: Callable[[Sequence[int]], Iterable[ItemRow]],
    table: str,
    *,
    zone: tzinfo = UTC,
    shared: bool = False,
) -> Iterator[SourceMessage | Skipped]:
    """Walks through the items of a conversation, in parts of some megabytes."""
    keys, branches = array("q"), array("q")
    for key, branch in places:
        keys.append(key)
        branches.append(branch)
    start, size = 0, _FIRST_ROWS
    while start < len(keys):
        part = keys[start : start + size]
        found = {row.key: row for row in fetch(sorted(set(part)))}
        for key, branch in zip(part, branches[start : start + size], strict=True):
            if key in found:
                message = _message(found[key], table, zone, branch)
                if shared and isinstance(message, SourceMessage):
                    message = replace(message, shared=str(key))
                yield message
        start += size
        read = sum(_length(row.data) for row in found.values())
        size = max(1, min(_MOST_ROWS, _CHARACTERS * len(part) // max(1, read)))


def on_main(keys: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Places items on the main branch, for stores that have no others."""
    return ((key, 0) for key in keys)


def moment(value: object, zone: tzinfo = UTC) -> datetime | None:
    """Reads a time as a driver gives it."""
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


def session_place(table: str, name: str) -> str:
    """Names a session in a report."""
    return f"{table} session_id={name[:MAX_ID_LENGTH]!r}"


def _message(row: ItemRow, table: str, zone: tzinfo, branch: int) -> SourceMessage | Skipped:
    if row.data is None:
        return Skipped(f"{table} id={row.key}", "it cannot be read")
    try:
        payload = _decode(_text(row.data))
    # RecursionError: it nests deeper than Python follows. ValueError: among others, an integer of
    # more digits than Python reads.
    except (RecursionError, ValueError):
        return Skipped(f"{table} id={row.key}", "it holds no JSON")
    if not isinstance(payload, dict):
        return Skipped(f"{table} id={row.key}", "it holds JSON, but no object")
    return SourceMessage(payload, created_at=moment(row.created_at, zone), branch=branch)


def _text(data: object) -> str:
    if isinstance(data, bytes | memoryview):
        return bytes(data).decode()
    if isinstance(data, str):
        return data
    raise ValueError("neither text nor bytes")


def _length(data: object) -> int:
    return len(data) if isinstance(data, str | bytes | memoryview) else 0


def _float(text: str) -> float:
    number = float(text)
    # 1e999 is JSON, but no number that Python has.
    return number if number - number == 0 else refuse_constant("infinity")


_decode = json.JSONDecoder(parse_constant=refuse_constant, parse_float=_float).decode
