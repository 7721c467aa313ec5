"""JSON documents, byte for byte as Strands' file and S3 session managers write them.

From ``strands/session/file_session_manager.py`` and ``strands/types/session.py``, 1.62: indented
by two spaces, no ASCII escapes, unsorted keys; bytes are
``{"__bytes_encoded__": true, "data": base64}``. A value that has this form by chance is read as
bytes.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from django_agent_sessions.exceptions import PayloadError

Document = dict[str, Any]

_MARKER = "__bytes_encoded__"


def to_json(document: Document, name: str) -> bytes:
    """Serialize a document; ``name`` is for errors."""
    try:
        return json.dumps(document, indent=2, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(document, indent=2).encode()
    except (TypeError, ValueError, RecursionError) as error:
        # Without the text of the error, which may contain content.
        kind = type(error).__name__
    raise PayloadError(f"the document for {name!r} is not JSON: {kind}")


def from_json(data: bytes, name: str) -> Document:
    """Parse a document; ``name`` is for errors."""
    try:
        document = json.loads(data.decode())
    except (ValueError, RecursionError):
        # Not raised here, where the error's context would contain the content.
        document = None
    if not isinstance(document, dict):
        raise PayloadError(f"file {name!r} is not a JSON object")
    return document


def mark_bytes(value: Any) -> Any:
    """Replace bytes with their marker."""
    if isinstance(value, bytes):
        return {_MARKER: True, "data": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {key: mark_bytes(item) for key, item in value.items()}
    if isinstance(value, list):
        return [mark_bytes(item) for item in value]
    return value


def unmark_bytes(value: Any, name: str) -> Any:
    """Replace markers with their bytes."""
    try:
        return _unmark(value)
    except (TypeError, ValueError):
        # Not raised here, where the error's context would contain the content.
        pass
    raise PayloadError(f"file {name!r} has bytes that are not base64")


def _unmark(value: Any) -> Any:
    if isinstance(value, dict):
        if value.get(_MARKER) is True and "data" in value:
            return base64.b64decode(value["data"])
        return {key: _unmark(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_unmark(item) for item in value]
    return value
