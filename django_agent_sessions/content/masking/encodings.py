"""Encoded content in strings: JSON, base64, data URLs."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from typing import Any
from urllib.parse import unquote

from django_agent_sessions.content.blob_refs import DATA_URL_PREFIX

MAX_DEPTH = 200
"""The maximal depth of a searched payload, including JSON inside of its strings."""

_JSON_START = ("{", "[", '"')
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)


def parse_embedded_json(text: str, depth: int = 0) -> Any:
    """Parse JSON in a string; None if it cannot be serialized again or is too deep."""
    if text.lstrip()[:1] not in _JSON_START:
        return None
    try:
        parsed = json.loads(text)
        sound = isinstance(parsed, dict | list | str) and _is_serializable(
            parsed, MAX_DEPTH - depth
        )
    except (ValueError, RecursionError):
        return None
    return parsed if sound else None


def within_escape(text: str, position: int) -> bool:
    r"""Return whether a position is inside of an escape such as ``\n`` or ``\u00e9``."""
    start = max(text.rfind('"', 0, position), text.rfind("\\", 0, position))
    # Backslashes are paired from the first of their run.
    while start > 0 and text[start - 1] == "\\":
        start -= 1
    return any(
        match.start() < position < match.end()
        for match in _ESCAPE.finditer(text, max(start, 0), position + 6)
    )


def base64_start(text: str) -> int:
    """Return the position of the base64 in a data URL, 0 if the text is no data URL."""
    match = DATA_URL_PREFIX.match(text)
    return match.end() if match else 0


def decode_base64(text: str) -> bytes | None:
    """Decode base64 as leniently as SDKs and browsers do."""
    try:
        return base64.b64decode(unquote(text) if "%" in text else text, validate=False)
    except (binascii.Error, ValueError):
        return None


def _is_serializable(value: Any, depth: int) -> bool:
    if isinstance(value, float):
        # Python's parser accepts NaN and Infinity.
        return math.isfinite(value)
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return depth > 0 and all(_is_serializable(item, depth - 1) for item in inner)
