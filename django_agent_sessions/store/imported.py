"""Messages on their way in from elsewhere, with all that is known of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connections

from django_agent_sessions import conf, statements, transcripts
from django_agent_sessions.exceptions import PayloadError
from django_agent_sessions.fields import CorruptPayload
from django_agent_sessions.models import MAIN_BRANCH, SessionMessage
from django_agent_sessions.records import AgentRecord, NewMessage
from django_agent_sessions.references import BlobRef
from django_agent_sessions.transcripts import displayable

from .cleaning import clean
from .rows import Row, values_of
from .statement_sizes import check_statement_size

_MOST_TOKENS = 2**40
_ROW_NAMES = tuple(field.name for field in statements.ROW_FIELDS)
_key = SessionMessage._meta.get_field("id")
_redacted_at = SessionMessage._meta.get_field("redacted_at")
FIGURES = ("input_tokens", "output_tokens", "latency_ms")
"""The columns of a message that count something."""


@dataclass(frozen=True, slots=True)
class ImportedMessage:
    """A message as it was elsewhere."""

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
    """A message on its way into the database, as :meth:`ImportStore.append_imported` takes it."""

    def __init__(
        self, using: str, dialect: str, message: ImportedMessage, *, keep: bool = False
    ) -> None:
        changed = message.redact_message is not None
        redacted = changed and message.redacted_at is not None
        shown = message.redact_message if changed else message.payload
        self.message = message
        self.id = message.id
        self.row = _row(dialect, shown, message)
        original = _row(dialect, message.payload, message) if changed and keep else self.row
        # An edit whose original does not stay is a message like any other.
        self._apart, self._original = redacted or (changed and keep), original
        self._figures = dict(message.figures)
        if redacted:
            self._figures = {**_figures(dialect, message.payload), **message.figures}
        check_statement_size(using, self.texts)

    @property
    def texts(self) -> list[str]:
        """Those of its values that can be large."""
        return [*self.row.texts, self._original.texts[0]] if self._apart else self.row.texts

    @property
    def size(self) -> int:
        """Roughly how much memory it takes, in bytes."""
        return sum(map(len, self.texts)) + sum(map(len, self.binaries.values()))

    @property
    def binaries(self) -> Mapping[BlobRef, bytes]:
        """The large binaries that were taken out of it."""
        return {**self._original.binaries, **self.row.binaries}

    @property
    def hashes(self) -> set[str]:
        """The hashes of all binaries that it refers to."""
        return self._original.hashes | self.row.hashes

    def values(self, using: str, agent: AgentRecord) -> list[Any]:
        """Makes the database values of the row, as :func:`statements.insert` takes them."""
        message, connection = self.message, connections[using]
        known = dict(zip(_ROW_NAMES, *values_of([self.row], using), strict=True))
        known |= {
            "id": _key.get_db_prep_save(self.id, connection),
            "message": self._original.texts[0],
            "session": _key.get_db_prep_save(agent.session, connection),
            "agent": _key.get_db_prep_save(agent.id, connection),
            "branch": message.branch,
            "message_id": message.message_id,
            "source": message.source and _key.get_db_prep_save(message.source, connection),
            "revision": message.revision,
            "redact_message": self.row.texts[0] if self._apart else None,
            "redacted_at": message.redacted_at
            and _redacted_at.get_db_prep_save(message.redacted_at, connection),
            "redaction": message.redaction and _key.get_db_prep_save(message.redaction, connection),
            **self._figures,
        }
        return [known[field.name] for field in statements.PLACED_FIELDS]


def _row(dialect: str, payload: Any, message: ImportedMessage) -> Row:
    if isinstance(payload, CorruptPayload):
        payload = _checked(payload)
    new = NewMessage(payload, message.id, message.created_at, message.updated_at)
    return Row(dialect, new, message.run_id)


def _checked(corrupt: CorruptPayload) -> CorruptPayload:
    """Checks what was no payload elsewhere either; the limits and masks are for it, too."""
    text = corrupt.text
    if displayable(text) != text:
        raise PayloadError("it is no payload, and holds NUL or a lone surrogate")
    if len(text.encode()) > conf.get_settings().MAX_PAYLOAD_BYTES:
        raise PayloadError("it is no payload, and longer than MAX_PAYLOAD_BYTES")
    return CorruptPayload(str(clean(text)))


def _figures(dialect: str, payload: Any) -> dict[str, int | None]:
    """Reads the figures of a message whose redacted version may have lost them."""
    summary = transcripts.summary(dialect, payload)
    return {name: figure(getattr(summary, name)) for name in FIGURES}


def figure(value: Any) -> int | None:
    """Takes a figure that somebody else counted, if it is one."""
    return value if type(value) is int and 0 <= value < _MOST_TOKENS else None
