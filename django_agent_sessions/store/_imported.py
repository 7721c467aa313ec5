"""Imported messages and their rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connections

from django_agent_sessions import conf
from django_agent_sessions.content import dialects
from django_agent_sessions.content.blob_refs import BlobRef
from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.exceptions import PayloadError
from django_agent_sessions.models import MAIN_BRANCH, SessionMessage
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.sql import message_writes
from django_agent_sessions.values.records import AgentRecord, NewMessage

from ._mask_on_write import mask_on_write
from ._rows import MessageRow, database_values
from ._statement_sizes import check_statement_size

_MAX_COUNT = 2**40
_ROW_NAMES = tuple(field.name for field in message_writes.ROW_FIELDS)
_key = SessionMessage._meta.get_field("id")
_redacted_at = SessionMessage._meta.get_field("redacted_at")
COUNT_COLUMNS = ("input_tokens", "output_tokens", "latency_ms")
"""Columns with token counts and the latency."""


@dataclass(frozen=True, slots=True)
class ImportedMessage:
    """A message as its source has it."""

    id: UUID
    message_id: int
    payload: Any
    created_at: datetime
    updated_at: datetime
    redact_message: Any = None
    branch: int = MAIN_BRANCH
    source: UUID | None = None
    run_id: UUID | None = None
    redacted_at: datetime | None = None
    redaction: UUID | None = None
    revision: int = 0
    figures: Mapping[str, int | None] = field(default_factory=dict)


class ImportedRow:
    """The row of an imported message, for :meth:`ImportStore.append_imported`."""

    def __init__(
        self, using: str, dialect: str, message: ImportedMessage, *, keep: bool = False
    ) -> None:
        is_edited = message.redact_message is not None
        redacted = is_edited and message.redacted_at is not None
        visible = message.redact_message if is_edited else message.payload
        self.message = message
        self.id = message.id
        self.row = _row(dialect, visible, message)
        original = _row(dialect, message.payload, message) if is_edited and keep else self.row
        # An edit without its original is an ordinary message.
        self._has_original, self._original = redacted or (is_edited and keep), original
        self._figures = dict(message.figures)
        if redacted:
            self._figures = {**_figures(dialect, message.payload), **message.figures}
        check_statement_size(using, self.texts)

    @property
    def texts(self) -> list[str]:
        """The values that can be large."""
        return [*self.row.texts, self._original.texts[0]] if self._has_original else self.row.texts

    @property
    def size(self) -> int:
        """Approximate size in memory, in bytes."""
        return sum(map(len, self.texts)) + sum(map(len, self.binaries.values()))

    @property
    def binaries(self) -> Mapping[BlobRef, bytes]:
        """The large binaries that were extracted from it."""
        return {**self._original.binaries, **self.row.binaries}

    @property
    def hashes(self) -> set[str]:
        """Hashes of all binaries that it references."""
        return self._original.hashes | self.row.hashes

    def values(self, using: str, agent: AgentRecord) -> list[Any]:
        """Return the database values, in the order of :data:`statements.PLACED_FIELDS`."""
        message, connection = self.message, connections[using]
        columns = dict(zip(_ROW_NAMES, *database_values([self.row], using), strict=True))
        columns |= {
            "id": _key.get_db_prep_save(self.id, connection),
            "message": self._original.texts[0],
            "session": _key.get_db_prep_save(agent.session, connection),
            "agent": _key.get_db_prep_save(agent.id, connection),
            "branch": message.branch,
            "message_id": message.message_id,
            "source": message.source and _key.get_db_prep_save(message.source, connection),
            "revision": message.revision,
            "change": 0,
            "redaction_change": None,
            "redact_message": self.row.texts[0] if self._has_original else None,
            "redacted_at": message.redacted_at
            and _redacted_at.get_db_prep_save(message.redacted_at, connection),
            "redaction": message.redaction and _key.get_db_prep_save(message.redaction, connection),
            **self._figures,
        }
        return [columns[field.name] for field in message_writes.ALL_FIELDS]


def _row(dialect: str, payload: Any, message: ImportedMessage) -> MessageRow:
    if isinstance(payload, CorruptPayload):
        payload = _validated_text(payload)
    new = NewMessage(payload, message.id, message.created_at, message.updated_at)
    return MessageRow(dialect, new, message.run_id)


def _validated_text(corrupt: CorruptPayload) -> CorruptPayload:
    """Validate and mask a payload that is not JSON in its source either."""
    text = corrupt.text
    if displayable(text) != text:
        raise PayloadError("the text is not JSON, and contains NUL or a lone surrogate")
    if len(text.encode()) > conf.get_settings().MAX_PAYLOAD_BYTES:
        raise PayloadError("the text is not JSON, and longer than MAX_PAYLOAD_BYTES")
    return CorruptPayload(str(mask_on_write(text)))


def _figures(dialect: str, payload: Any) -> dict[str, int | None]:
    """Read the token counts and latency of an original, which its redaction may lack."""
    summary = dialects.get(dialect).summary(payload)
    return {name: plausible_count(getattr(summary, name)) for name in COUNT_COLUMNS}


def plausible_count(value: Any) -> int | None:
    """Return an imported count if it is plausible, otherwise None."""
    return value if type(value) is int and 0 <= value < _MAX_COUNT else None
