"""The text of a message, which its payload and its column ``text`` share.

A stored payload does not repeat the column ``text`` of its row: each occurrence is replaced by a
marker with the text's length in bytes, between two control characters that JSON cannot contain. A
query puts the text back in the place of the marker (``models.fields.ContentColumn``). A marker
whose length is not that of the column stays, so that its payload is read as corrupt.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import Any

from django.db.models import F, QuerySet

VERBATIM = "\x1f"
"""Encloses the marker of a text that stands in the payload as it is."""
ESCAPED = "\x1e"
"""Encloses the marker of a text that stands in the payload as a JSON string."""

_SHORTEST = 32
# In characters, of up to four bytes. The size and the beginning of longer payloads are read without
# the rest.
_LONGEST = 16 * 1024
# MariaDB escapes these in another way than Python, PostgreSQL and SQLite.
_UNSHARED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")

_ESCAPING_FUNCTIONS = {
    "postgresql": "TO_JSON({})::text",
    "sqlite": "JSON_QUOTE({})",
    "mysql": "JSON_QUOTE({})",
}

_WHOLE_PAYLOAD = {"message": F("message")}


def store_whole_payloads(rows: QuerySet[Any]) -> None:
    """Store the payloads of messages with the text that they share."""
    rows.update(**_WHOLE_PAYLOAD)


def keeping_payloads(columns: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the columns of an update, with the payload if only the text would change."""
    if "text" not in columns or "message" in columns:
        return columns
    # First, because MariaDB assigns from left to right.
    return {**_WHOLE_PAYLOAD, **columns}


def has_marker(payload: str) -> bool:
    """Return whether a payload contains a character that begins a marker."""
    return VERBATIM in payload or ESCAPED in payload


def without_text(payload: str, text: str) -> str:
    """Return a payload as it is stored in a row with this text."""
    if len(text) < _SHORTEST or len(payload) > _LONGEST or has_marker(payload):
        return payload
    size = len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
    shared = payload.replace(f'"{text}"', f'"{VERBATIM}{size}{VERBATIM}"')
    if shared == payload and not _UNSHARED.search(text):
        shared = payload.replace(encode_basestring(text), f"{ESCAPED}{size}{ESCAPED}")
    return shared


@functools.lru_cache(maxsize=100)
def with_text(vendor: str, payload: str, text: str) -> str:
    """Return the SQL of a whole payload, given the SQL of the stored one and of the text."""
    escaped_text = _ESCAPING_FUNCTIONS[vendor].format(text)
    verbatim, escaped = (_marker(vendor, text, character) for character in (VERBATIM, ESCAPED))
    if vendor == "mysql":
        # Its search for the character would depend on the column's collation.
        return f"REPLACE(REPLACE({payload}, {verbatim}, {text}), {escaped}, {escaped_text})"
    # Escaping takes as long as everything else.
    find = "STRPOS" if vendor == "postgresql" else "INSTR"
    # PostgreSQL then returns the size and the beginning without fetching the rest.
    long = (
        f"WHEN OCTET_LENGTH({payload}) > {4 * _LONGEST} THEN {payload} "
        if vendor == "postgresql"
        else ""
    )
    return (
        f"CASE {long}WHEN {find}({payload}, '{ESCAPED}') > 0 "
        f"THEN REPLACE({payload}, {escaped}, {escaped_text}) "
        f"ELSE REPLACE({payload}, {verbatim}, {text}) END"
    )


def _marker(vendor: str, text: str, character: str) -> str:
    if vendor == "mysql":
        return f"CONCAT('{character}', OCTET_LENGTH({text}), '{character}')"
    size = f"OCTET_LENGTH({text})" if vendor == "postgresql" else f"LENGTH(CAST({text} AS BLOB))"
    return f"'{character}' || {size} || '{character}'"
