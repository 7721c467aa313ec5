"""How messages begin: from their column ``text``, or from the payload if encryption emptied it."""

from __future__ import annotations

from typing import Any

from django.db.models import Case, Q, TextField, When
from django.db.models.functions import Substr
from django.db.models.lookups import LessThanOrEqual

from django_agent_sessions.content import codec, dialects
from django_agent_sessions.content.dialects.parts import (
    PartKind,
    join_searchable_text,
    readable_texts,
)
from django_agent_sessions.models.fields import decode_payload
from django_agent_sessions.models.functions import OctetLength
from django_agent_sessions.models.stored_text import StoredText, opened_text
from django_agent_sessions.models.titles import begins_with_result

_MAX_PAYLOAD = 64 * 1024
"""The most bytes of an encrypted message that is read for its text."""


def beginning_columns(length: int) -> list[Any]:
    """Return the columns to select from messages, which :func:`beginning` takes."""
    text = Substr("text", 1, length)
    return [text] if codec.is_plain() else [text, "agent__dialect", _small_payload(Q(text=""))]


def said_columns(length: int) -> list[Any]:
    """Return the columns to select from messages, which :func:`said` takes."""
    return [Substr("text", 1, length), "agent__dialect", _small_payload()]


def _small_payload(*conditions: Q) -> Case:
    """Return the payload of messages that are small and meet the conditions; NULL for others."""
    is_small = LessThanOrEqual(OctetLength("message"), _MAX_PAYLOAD)
    payload = StoredText("message", output_field=TextField())
    return Case(When(Q(*conditions, is_small), then=payload), output_field=TextField(null=True))


def said(length: int, text: str, dialect: str, payload: str | None) -> str:
    """Return how what a user or a model says in a message begins, without the results of tools.

    Empty for a message that begins with such a result, and for large encrypted messages. Raises
    EncryptionError if the message cannot be decrypted.
    """
    if payload is None:
        return text
    if begins_with_result(stored := opened_text(payload)):
        return ""
    parts = dialects.get(dialect).parts(decode_payload(stored))
    spoken = (part for part in parts if part.kind is not PartKind.TOOL_RESULT)
    return join_searchable_text(readable_texts(spoken))[:length]


def beginning(length: int, text: str, dialect: str = "", payload: str | None = None) -> str:
    """Return how a message begins; empty for what has no text, and for large encrypted messages.

    Raises EncryptionError if the message cannot be decrypted.
    """
    if text or payload is None:
        return text
    return dialects.get(dialect).summary(decode_payload(opened_text(payload))).text[:length]
