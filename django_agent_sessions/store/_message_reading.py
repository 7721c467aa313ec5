"""Read messages: single ones, pages, the last ones, or a whole conversation."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from django.db.models import Q

from django_agent_sessions.blobs import restore_binaries
from django_agent_sessions.content import exact_json
from django_agent_sessions.content.message_references import referenced_ranges
from django_agent_sessions.db.retries import retry_reads
from django_agent_sessions.models.fields import CorruptPayload, decode_payload
from django_agent_sessions.models.stored_text import PAYLOAD_TEXT
from django_agent_sessions.sql import message_reads
from django_agent_sessions.values.records import (
    AgentRecord,
    MessageRecord,
    PositionedPayload,
    RestoredMessage,
    Usage,
)

from ._queries import conversation

logger = logging.getLogger("django_agent_sessions")

_MAX_SPANS = 100

RECORD_COLUMNS = (
    "id",
    "message_id",
    "message",
    "redacted_at",
    "role",
    "run_id",
    "revision",
    "created_at",
    "updated_at",
    "input_tokens",
    "output_tokens",
    "has_error",
    "cache_read_tokens",
    "cache_write_tokens",
    "external_id",
    "author",
)


def payloads_of(using: str, agent: AgentRecord, latest: int | None) -> list[Any]:
    """Read the readable payloads of a conversation, or the last ones."""
    AgentRecord.require(agent)
    if latest is not None and latest <= 0:
        return []
    decoded = _payloads_if_readable(using, agent, latest)
    if decoded is None:
        return [positioned.payload for positioned in read_positioned(using, agent, latest)]
    return decoded if latest is None else decoded[::-1]


@retry_reads
def read_positioned(using: str, agent: AgentRecord, latest: int | None) -> list[PositionedPayload]:
    """Read payloads, the position of each, and whether it was redacted."""
    if latest is None:
        rows = message_reads.select_contents(using, agent.id, branch=agent.branch)
        return _placed(using, agent, rows)
    result: list[PositionedPayload] = []
    wanted = latest
    while wanted > 0:
        rows = message_reads.select_contents(using, agent.id, branch=agent.branch, latest=wanted)
        result = _placed(using, agent, rows)
        if len(result) >= latest or len(rows) < wanted:
            break
        # Some of the last rows are corrupt: read more of them.
        wanted *= 2
    return result[: max(latest, 0)][::-1]


@retry_reads
def read_to_restore(using: str, agent: AgentRecord, offset: int) -> list[RestoredMessage]:
    """Read a conversation as the input of a model.

    Messages of concurrent invocations are grouped by invocation, in order of their first
    messages, so that each tool call is followed by its result.
    """
    rows = _rows_to_restore(using, agent, offset)
    window = agent.data.window
    if window is None:
        return _in_order_of_runs(using, agent, rows)
    kept = [row for row in rows if row[0] < window["tail"]]
    found = {row[0]: (payload, row[2]) for row, payload in read_contents(using, agent, kept)}
    restored: list[RestoredMessage] = []
    for item in window["kept"]:
        if isinstance(item, dict):
            run_id = restored[-1].run_id if restored else None
            restored.append(RestoredMessage(item.get("position"), item["message"], run_id))
        else:
            # Each message once, whatever an imported window says.
            restored += [
                RestoredMessage(position, *found.pop(position))
                for position in _positions_in(item, found)
            ]
    rest = [row for row in rows if row[0] >= window["tail"]]
    return restored + _in_order_of_runs(using, agent, rest)


def _positions_in(span: Sequence[int], found: Collection[int]) -> list[int]:
    """Return the positions of a range that were read; a range of an import may be very long."""
    first, stop = span
    if stop - first > len(found):
        return sorted(position for position in found if first <= position < stop)
    return [position for position in range(first, stop) if position in found]


def _in_order_of_runs(
    using: str, agent: AgentRecord, rows: list[tuple[int, str, Any]]
) -> list[RestoredMessage]:
    first_positions: dict[Any, int] = {}
    previous_run = None
    interleaved = False
    for message_id, _, run_id in rows:
        if run_id is not None and run_id != previous_run:
            interleaved = interleaved or run_id in first_positions
            first_positions.setdefault(run_id, message_id)
        previous_run = run_id
    if interleaved:
        rows.sort(key=lambda row: (first_positions.get(row[2], row[0]), row[0]))
    readable, payloads = _read(using, agent, rows)
    positions, run_ids = [row[0] for row in readable], [row[2] for row in readable]
    return list(map(RestoredMessage._make, zip(positions, payloads, run_ids, strict=True)))


def _decode(agent: AgentRecord, rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, Any]]:
    """Decode rows that begin with position and text; skip corrupt ones."""
    for row in rows:
        payload = decode_payload(row[1])
        if isinstance(payload, CorruptPayload):
            log_corrupt(agent, row[0], "skipped")
        else:
            yield row, payload


def _message_records(agent: AgentRecord, rows: Iterable[tuple[Any, ...]]) -> list[MessageRecord]:
    records = []
    for row in rows:
        *values, read, written, has_error, cache_read, cache_write, external_id, author = row
        usage = Usage(1, read, written, None, int(has_error), cache_read, cache_write)
        record = MessageRecord._make([*values, usage, external_id, author])
        if isinstance(record.content, CorruptPayload):
            log_corrupt(agent, record.message_id, "skipped")
        else:
            records.append(record)
    return records


def log_corrupt(agent: AgentRecord, message_id: int, done: str) -> None:
    """Log a corrupt message and what was done with it: skipped or deleted."""
    logger.warning(
        "message %d of agent %s (row %s) is corrupt and was %s",
        message_id,
        agent.agent_id,
        agent.id,
        done,
    )


@retry_reads
def _payloads_if_readable(using: str, agent: AgentRecord, latest: int | None) -> list[Any] | None:
    """Read payloads if all are readable; None if one is corrupt."""
    rows = message_reads.select_texts(using, agent.id, branch=agent.branch, latest=latest)
    texts = [text for (text,) in rows]
    try:
        decoded = exact_json.loads_all(texts)
    except ValueError:
        return None
    return _with_binaries(using, agent, decoded, texts)


def _rows_to_restore(using: str, agent: AgentRecord, offset: int) -> list[tuple[int, str, Any]]:
    window = agent.data.window
    if window is None and not offset:
        return message_reads.select_with_runs(using, agent.id, branch=agent.branch)
    in_window = Q(message_id__gte=offset) if window is None else _in_window(window)
    rows = conversation(using, agent).filter(in_window)
    return list(rows.values_list("message_id", PAYLOAD_TEXT, "run_id"))


def _in_window(window: dict[str, Any]) -> Q:
    """Return the condition of a window's messages, without the originals of its variants.

    Nothing tells here whether these were redacted: a redaction removes the variants.
    """
    kept = window["kept"]
    spans: list[list[int]] = []
    for first, stop in sorted(referenced_ranges(kept)):
        if spans and first <= spans[-1][1]:
            spans[-1][1] = max(stop, spans[-1][1])
        else:
            spans.append([first, stop])
    if len(spans) > _MAX_SPANS:
        spans = [[spans[0][0], spans[-1][1]]]
    condition = Q(message_id__gte=window["tail"])
    for first, stop in spans:
        condition |= Q(message_id__gte=first, message_id__lt=stop)
    variants = [item["position"] for item in kept if isinstance(item, dict) and "position" in item]
    if variants:
        condition &= ~Q(message_id__in=variants)
    return condition


def _placed(
    using: str, agent: AgentRecord, rows: Iterable[tuple[Any, ...]]
) -> list[PositionedPayload]:
    readable, decoded = _read(using, agent, rows)
    positions = [row[0] for row in readable]
    redacted = [bool(row[2]) for row in readable]
    return list(map(PositionedPayload._make, zip(positions, decoded, redacted, strict=True)))


def read_contents(
    using: str, agent: AgentRecord, rows: Iterable[tuple[Any, ...]]
) -> list[tuple[Any, Any]]:
    return list(zip(*_read(using, agent, rows), strict=True))


def _read(
    using: str, agent: AgentRecord, rows: Iterable[tuple[Any, ...]]
) -> tuple[list[tuple[Any, ...]], list[Any]]:
    """Read the payloads, with binaries, of rows that begin with position and text."""
    rows = list(rows)
    texts = [row[1] for row in rows]
    try:
        decoded = exact_json.loads_all(texts)
    except ValueError:
        readable = list(_decode(agent, rows))
        rows, decoded = [row for row, _ in readable], [payload for _, payload in readable]
        texts = [row[1] for row in rows]
    return rows, _with_binaries(using, agent, decoded, texts)


def _with_binaries(
    using: str, agent: AgentRecord, decoded: list[Any], texts: list[str]
) -> list[Any]:
    """Restore the large binaries in payloads whose texts reference any."""
    indexes = [
        index for index, text in enumerate(texts) if "$" in text and exact_json.has_blobs(text)
    ]
    if indexes:
        incomplete = [decoded[index] for index in indexes]
        complete = restore_binaries(using, agent.session, incomplete, agent.dialect)
        for index, payload in zip(indexes, complete, strict=True):
            decoded[index] = payload
    return decoded


def read_records(
    using: str, agent: AgentRecord, rows: Iterable[tuple[Any, ...]]
) -> list[MessageRecord]:
    records = _message_records(agent, rows)
    payloads = [record.message for record in records]
    complete = restore_binaries(using, agent.session, payloads, agent.dialect)
    return [r._replace(message=one) for r, one in zip(records, complete, strict=True)]
