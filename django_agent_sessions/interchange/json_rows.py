"""Rows as JSON objects: the columns of a model, and payloads as they are stored."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import date, datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from django_agent_sessions.content import exact_json
from django_agent_sessions.models.stored_text import StoredText

from .row_pages import RowDict


def read_row(found: Any, columns: Iterable[str], texts: Iterable[str]) -> RowDict | None:
    # With a suffix, because an annotation must not have the name of a field.
    read = found.values(*columns, **{f"{name}_text": StoredText(name) for name in texts}).first()
    return None if read is None else without_suffix(read)


def without_suffix(row: RowDict) -> RowDict:
    return {key.removesuffix("_text"): value for key, value in row.items()}


def json_object(row: RowDict, texts: Iterable[str]) -> str:
    """Return a row as a JSON object; the values of ``texts`` are JSON already."""
    texts = tuple(texts)
    members_of = {key: plain(value) for key, value in row.items() if key not in texts}
    members, corrupt = [exact_json.dumps(members_of)[1:-1]], []
    for name in texts:
        member = _payload(row[name])
        if member is None:
            corrupt.append(f'"{name}":{json.dumps(row[name])}')
        members.append(f'"{name}":{member or "null"}')
    if corrupt:
        members.append(f'"corrupt":{{{",".join(corrupt)}}}')
    return f"{{{','.join(members)}}}"


def _payload(text: str | None) -> str | None:
    """Return a stored payload on one line, or None if it is not valid JSON."""
    if text is None:
        return "null"
    try:
        exact_json.loads(text)
    except ValueError:
        return None
    # Line feeds are white space between values, as in manually written rows; JSON strings cannot
    # contain them.
    return text.replace("\n", " ").replace("\r", " ")


def plain(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        # With the time zone, which other projects do not know.
        return (timezone.make_aware(value) if timezone.is_naive(value) else value).isoformat()
    return value.isoformat() if isinstance(value, date) else value
