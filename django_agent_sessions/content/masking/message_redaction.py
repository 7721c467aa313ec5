"""Redaction of whole messages and blocks; ids, roles and types that order them are kept."""

from __future__ import annotations

from typing import Any

from django_agent_sessions.content import dialects
from django_agent_sessions.content.dialects.redaction import Redactor, mask
from django_agent_sessions.content.dialects.vocabulary import ValueKind
from django_agent_sessions.content.paths import Path, has_path, value_at

from .masks import document_name, is_mask, pseudonymous_id, safe_id, safe_name
from .replacement import replace_at, replace_spans


def redact_message(dialect: str, message: Any) -> Any:
    """Redact all content of a message."""
    if not isinstance(message, dict):
        return mask()
    # A payload is untrusted and may have any structure.
    try:
        return _redact(dialect, message)
    except Exception:
        reader = _dialect(dialect, message)
        return reader.replace(message, _redactor(reader))


def _redact(dialect: str, message: dict[str, Any]) -> Any:
    reader = _dialect(dialect, message)
    return reader.redact(message, _redactor(reader))


def _dialect(name: str, message: dict[str, Any]) -> dialects.Dialect:
    reader = dialects.get(name)
    return dialects.recognize(message) if isinstance(reader, dialects.UnknownDialect) else reader


def _redactor(dialect: dialects.Dialect) -> Redactor:
    is_unknown = isinstance(dialect, dialects.UnknownDialect)
    return Redactor(
        vocabulary=dialects.vocabulary() if is_unknown else dialect.vocabulary,
        is_mask=is_mask,
        safe_id=safe_id,
        pseudonym=pseudonymous_id,
        safe_name=safe_name,
    )


def redact_block(dialect: str, message: Any, path: Path) -> Any:
    """Redact one block of a message; raise :exc:`LookupError` if there is none at the path."""
    value_at(message, path)
    redacted = redact_message(dialect, message)
    if not path:
        return redacted
    if has_path(redacted, path):
        return replace_at(message, path, value_at(redacted, path))
    # A content item of a tool result, which may have any type.
    return replace_at(message, path, {"text": mask()} if isinstance(path[-1], int) else mask())


def redact_spans(message: Any, path: Path, *spans: tuple[int, int]) -> Any:
    """Redact spans of one text of a message; raise :exc:`LookupError` if they do not exist."""
    text = value_at(message, path)
    if isinstance(text, dict) and "text" in text:
        path, text = (*path, "text"), text["text"]
    if not isinstance(text, str) or not all(0 <= one < end <= len(text) for one, end in spans):
        raise LookupError("The payload has no text with these spans at this path.")
    masked = replace_spans(text, spans)
    if masked is not text and path and _is_document_name(message, path, text):
        masked = document_name(text, masked, limited=path[-1] == "name")
    return message if masked is text else replace_at(message, path, masked)


def _is_document_name(message: Any, path: Path, text: str) -> bool:
    parent, key = value_at(message, path[:-1]), path[-1]
    if not isinstance(parent, dict) or not isinstance(key, str):
        return False
    kinds = (kind_of(parent, text) for kind_of in dialects.value_kinds().get(key, ()))
    return key in dialects.vocabulary().file_names or ValueKind.DOCUMENT in kinds
