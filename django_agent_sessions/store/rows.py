"""Rows of messages on their way into the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import connections
from django.utils import timezone

from django_agent_sessions import blobs, payloads, statements, transcripts
from django_agent_sessions.fields import CorruptPayload
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.records import MessageRecord, NewMessage, Usage
from django_agent_sessions.references import BlobRef, references

from .cleaning import clean

_ROLE_LENGTH = 32
_MOST_TOKENS = 2**40
_PART_SIZE = 2 * 1024 * 1024

_key = SessionMessage._meta.get_field("id")
_created_at = SessionMessage._meta.get_field("created_at")


class Row:
    """One message: its payload as text, and the neutral columns read from it.

    ``message`` is what was given, ``stored`` what is written of it: without the large binaries, if
    these go to a storage.

    Args:
        dialect: The message format.
        message: The payload, or a ``NewMessage`` with it.
        run_id: The invocation it belongs to.
        limited: Whether the limits on large binaries count; not for what was stored before.

    Raises:
        PayloadError: The payload is not JSON or over a limit.
    """

    def __init__(
        self, dialect: str, message: Any, run_id: UUID | None = None, *, limited: bool = True
    ) -> None:
        new = message if isinstance(message, NewMessage) else NewMessage(message)
        self.id = new.id
        self.message = new.payload
        self.run_id = run_id
        self.created_at = new.created_at or timezone.now()
        self.updated_at = new.updated_at or self.created_at
        # What was no payload before its redaction is none after it.
        corrupt = isinstance(self.message, CorruptPayload)
        cleaned = self.message if corrupt else clean(self.message)
        extracted = blobs.extracted(cleaned, limited=limited)
        self.stored = extracted.value
        self.binaries: Mapping[BlobRef, bytes] = extracted.binaries
        self._payload = self.stored.text if corrupt else payloads.dumps(self.stored)
        self._summary = transcripts.summary(dialect, cleaned)

    @property
    def hashes(self) -> set[str]:
        """The hashes of all binaries that it refers to."""
        if not payloads.has_blobs(self._payload):
            return set()
        return {reference.sha256 for _, reference in references(self.stored)}

    @property
    def texts(self) -> list[str]:
        """Those of its values that can be large."""
        return [self._payload, self._summary.text]

    @property
    def size(self) -> int:
        """Roughly how much of a statement it takes, in characters."""
        return sum(map(len, self.texts))

    @property
    def tokens(self) -> tuple[int, int]:
        """The tokens of input and output that it adds to the session's counters."""
        summary = self._summary
        return _figure(summary.input_tokens) or 0, _figure(summary.output_tokens) or 0

    def neutral_columns(self) -> dict[str, Any]:
        """What an update of the payload changes beside it."""
        return {
            "role": self._summary.role[:_ROLE_LENGTH],
            "text": self._summary.text,
            "updated_at": self.updated_at,
        }

    def values(self, using: str) -> list[Any]:
        """The database values of the row, as :func:`statements.append` takes them."""
        summary = self._summary
        connection = connections[using]
        created_at = _created_at.get_db_prep_save(self.created_at, connection)
        # Most rows are as old as their last change, and text and figures are as the driver takes
        # them: of a batch, the adaptation would take longer than the statement.
        columns = {
            "id": _key.get_db_prep_save(self.id, connection),
            "run_id": _key.get_db_prep_save(self.run_id, connection) if self.run_id else None,
            "message": self._payload,
            "role": summary.role[:_ROLE_LENGTH],
            "text": summary.text,
            "input_tokens": _figure(summary.input_tokens),
            "output_tokens": _figure(summary.output_tokens),
            "latency_ms": _figure(summary.latency_ms),
            "created_at": created_at,
            "updated_at": created_at
            if self.updated_at is self.created_at
            else _created_at.get_db_prep_save(self.updated_at, connection),
        }
        return [columns[field.name] for field in statements.ROW_FIELDS]

    def record(self, message_id: int) -> MessageRecord:
        """The message as it was written."""
        return MessageRecord(
            id=self.id,
            message_id=message_id,
            message=self.message,
            redact_message=None,
            role=self._summary.role,
            run_id=self.run_id,
            revision=0,
            created_at=self.created_at,
            updated_at=self.updated_at,
        )


def usage_of(rows: Sequence[Row]) -> Usage:
    """Adds up what messages add to the session's counters.

    Args:
        rows: The messages.

    Returns:
        The sums.
    """
    tokens = [row.tokens for row in rows]
    return Usage(len(rows), sum(given for given, _ in tokens), sum(made for _, made in tokens))


def chunks(rows: Sequence[Row]) -> list[Sequence[Row]]:
    """Divides rows into statements of a size that every database takes.

    Args:
        rows: The rows of one batch.

    Returns:
        The rows in order, in parts; a large row is a part of its own.
    """
    if len(rows) == 1:
        return [rows]
    parts: list[list[Row]] = []
    size = 0
    for row in rows:
        full = parts and (len(parts[-1]) >= statements.MOST_ROWS or size + row.size > _PART_SIZE)
        if not parts or full:
            parts.append([])
            size = 0
        parts[-1].append(row)
        size += row.size
    return list(parts)


def _figure(value: int | None) -> int | None:
    # What an SDK reports is not under our control, and must not make a message fail.
    return value if value is not None and 0 <= value < _MOST_TOKENS else None
