"""Message rows before they are inserted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone

from django_agent_sessions import blobs, conf
from django_agent_sessions.conf import AgentSessionsSettings
from django_agent_sessions.content import codec, dialects, exact_json
from django_agent_sessions.content.blob_refs import BlobRef, references
from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.content.masking.on_write import mask_on_write
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.sql import message_writes
from django_agent_sessions.values.ids import MAX_ID_LENGTH, new_id, validate_id
from django_agent_sessions.values.prices import cost_of
from django_agent_sessions.values.records import MessageRecord, NewMessage, Usage
from django_agent_sessions.values.run_context import current_run

_PART_SIZE = 2 * 1024 * 1024

_created_at = SessionMessage._meta.get_field("created_at")


def sealed_payload(key: UUID, text: str, session: UUID) -> str:
    """Return a payload's text, sealed for the row of a message."""
    if codec.is_plain():
        return text
    field: Any = SessionMessage._meta.get_field("message")
    return codec.seal(key, field.codec_column, text, session)


class MessageRow:
    """One message: its payload as text, and the format-neutral columns read from it.

    ``message`` is the caller's payload. ``stored`` is what is written: without the large binaries,
    if these go to a storage.
    """

    def __init__(
        self,
        dialect: str,
        message: Any,
        run_id: UUID | None = None,
        *,
        author: str | None = None,
        limited: bool = True,
        now: datetime | None = None,
        settings: AgentSessionsSettings | None = None,
    ) -> None:
        settings = settings or conf.get_settings()
        if isinstance(message, NewMessage):
            self.id, self.message = message.id, message.payload
            self.created_at = message.created_at or now or timezone.now()
            self.updated_at = message.updated_at or self.created_at
        else:
            self.id, self.message = new_id(), message
            self.created_at = self.updated_at = now or timezone.now()
        self.run_id = run_id
        # A corrupt payload stays corrupt after its redaction.
        corrupt = isinstance(self.message, CorruptPayload)
        cleaned = self.message
        if settings.REDACT_ON_WRITE and not corrupt:
            cleaned = mask_on_write(cleaned, settings=settings)
        self.stored = cleaned
        self.binaries: Mapping[BlobRef, bytes] = {}
        if settings.BLOB_STORAGE is not None:
            extracted = blobs.extract_binaries(cleaned, limited=limited, settings=settings)
            self.stored, self.binaries = extracted.value, extracted.binaries
        self._payload = self.stored.text if corrupt else exact_json.dumps(self.stored, settings)
        self.has_binaries = exact_json.has_blobs(self._payload)
        """Whether it references binaries in a storage."""
        self._summary = dialects.get(dialect).summary(cleaned)
        self._prices = settings.PRICES
        self.model, self.author = "", ""
        self.external_id: str | None = None
        if isinstance(message, NewMessage):
            self._describe(message)
        if not self.author and self._summary.role == "user":
            self.author = current_run().author if author is None else author

    def _describe(self, message: NewMessage) -> None:
        """Take over what a new message has besides its payload."""
        if message.model and isinstance(message.model, str):
            self.model = displayable(message.model)[:MAX_ID_LENGTH]
        if (usage := message.usage) is not None:
            self._summary = self._summary._replace(
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cache_read_tokens=usage.cache_read_tokens,
                cache_write_tokens=usage.cache_write_tokens,
            )
        if message.external_id is not None:
            self.external_id = validate_id(message.external_id, "external_id")
        if message.author:
            self.author = validate_id(message.author, "author")

    @property
    def hashes(self) -> set[str]:
        """Hashes of all binaries that it references."""
        if not self.has_binaries:
            return set()
        return {reference.sha256 for _, reference in references(self.stored)}

    @property
    def texts(self) -> list[str]:
        """The values that can be large."""
        return [self._payload, self._summary.text]

    @property
    def size(self) -> int:
        """Approximate size in a statement, in characters."""
        return len(self._payload) + len(self._summary.text)

    @property
    def byte_count(self) -> int:
        """Size of its payload in the database, in bytes of UTF-8."""
        return len(self._payload.encode(errors="surrogatepass"))

    @cached_property
    def usage(self) -> Usage:
        """What the session's counters add up."""
        summary = self._summary
        cost = cost_of(self._prices, self.model, summary, self.created_at) if self._prices else None
        return Usage(
            1,
            summary.input_tokens,
            summary.output_tokens,
            cost,
            int(summary.has_error),
            summary.cache_read_tokens,
            summary.cache_write_tokens,
        )

    def neutral_columns(self) -> dict[str, Any]:
        """Return the columns that change with the payload."""
        return {
            "role": self._summary.role,
            "text": codec.neutral_text(self._summary.text),
            "has_error": self._summary.has_error,
            "updated_at": self.updated_at,
        }

    def stored_payload(self, session: UUID) -> str:
        """Return the payload as it is stored in a session."""
        return sealed_payload(self.id, self._payload, session)

    def values(self, session: UUID, created_at: str, updated_at: str) -> list[Any]:
        """Return the database values, in the order of :data:`message_writes.ROW_FIELDS`."""
        role, text, input_tokens, output_tokens, latency_ms, has_error, *_ = self._summary
        # Hexadecimal digits are valid on every database, with or without a UUID type.
        return [
            self.id.hex,
            self.run_id.hex if self.run_id else None,
            self.stored_payload(session),
            role,
            codec.neutral_text(text),
            input_tokens,
            output_tokens,
            latency_ms,
            has_error,
            self.model,
            created_at,
            updated_at,
        ]

    @property
    def more_values(self) -> tuple[Any, ...]:
        """The database values of :data:`message_writes.EMPTY_FIELDS`, in this order."""
        cached = self._summary.cache_read_tokens, self._summary.cache_write_tokens
        return self.external_id, self.author, *cached

    def record(self, message_id: int) -> MessageRecord:
        return MessageRecord(
            id=self.id,
            message_id=message_id,
            message=self.message,
            redacted_at=None,
            role=self._summary.role,
            run_id=self.run_id,
            revision=0,
            created_at=self.created_at,
            updated_at=self.updated_at,
            usage=self.usage,
            external_id=self.external_id,
            author=self.author,
        )


_NO_MORE_VALUES = tuple(message_writes.EMPTY_FIELDS.values())


def database_values(
    rows: Sequence[MessageRow],
    session: UUID,
    connection: BaseDatabaseWrapper,
    now: datetime,
    *,
    whole: bool = False,
) -> list[list[Any]]:
    """Return the database values of rows, in the order of :data:`message_writes.WIDE_FIELDS`.

    ``now`` is the aware time that most rows of a batch have. ``whole`` adds the fields that may be
    left out.
    """
    # Adapting a time takes as long as the rest of the row.
    times = {id(now): str(connection.ops.adapt_datetimefield_value(now))}

    def adapt(time: datetime) -> str:
        text = times.get(id(time))
        if text is None:
            text = times[id(time)] = str(_created_at.get_db_prep_save(time, connection))
        return text

    more = [row.more_values for row in rows]
    whole = whole or any(each != _NO_MORE_VALUES for each in more)
    values = [row.values(session, adapt(row.created_at), adapt(row.updated_at)) for row in rows]
    if whole:
        return [[*each, *others] for each, others in zip(values, more, strict=True)]
    return values


def uploads_of(
    using: str, session: UUID, rows: Sequence[MessageRow], *, known: bool = False
) -> blobs.Uploads:
    """Return the binaries of rows, to be stored with them."""
    uses = {row.id: row.hashes for row in rows}
    binaries = {ref: data for row in rows for ref, data in row.binaries.items()}
    return blobs.Uploads(using, session, uses, binaries, known=known)


def total_usage(rows: Sequence[MessageRow]) -> Usage:
    """Return the sum of what rows add to the session's counters."""
    if len(rows) == 1:
        return rows[0].usage
    return sum((row.usage for row in rows), Usage())


def split_into_statements(rows: Sequence[MessageRow]) -> list[Sequence[MessageRow]]:
    """Split rows into statements that every database accepts."""
    if len(rows) == 1:
        return [rows]
    parts: list[list[MessageRow]] = []
    size = 0
    for row in rows:
        full = parts and (len(parts[-1]) >= message_writes.MAX_ROWS or size + row.size > _PART_SIZE)
        if not parts or full:
            parts.append([])
            size = 0
        parts[-1].append(row)
        size += row.size
    return list(parts)
