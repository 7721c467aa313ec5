"""Parse and build snapshots exactly as Strands' ``SnapshotSessionManager`` writes them.

A document is ``json.dumps`` with its default separators and without ASCII escapes. It is parsed
only if the parts can be joined to the same bytes again; anything else is stored verbatim.

Source: ``strands/session/snapshot_session_manager.py`` (1.62), ``_serialize_snapshot``.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import Any

from strands.types.session import decode_bytes_values, encode_bytes_values

_HEAD = re.compile(
    rb'\{"scope": "agent", "schema_version": "[^"\\]*", "created_at": "[^"\\]*", '
    rb'"data": \{"messages": \['
)
_MESSAGES = "messages"
_DATA = "data"
_BYTES_MARKER = b"__bytes_encoded__"
_WINDOW = 64 * 1024
_decoder = json.JSONDecoder()
_encode = json.JSONEncoder(ensure_ascii=False).encode


class UnstructuredError(ValueError):
    """These bytes are not a document of Strands, and must be stored verbatim."""


def dump_document(value: Any) -> bytes:
    """Serialize JSON as Strands does, with markers for bytes."""
    try:
        return _encode(encode_bytes_values(value)).encode()
    except (TypeError, ValueError, RecursionError):
        # Raised below, because the context of the error would contain the content.
        pass
    raise UnstructuredError


def load_document(data: bytes) -> Any:
    """Parse a whole document, with markers for bytes."""
    try:
        value = json.loads(data.decode())
        same = _encode(value).encode() == data
    except (TypeError, ValueError, RecursionError):
        same = False
    if not same:
        raise UnstructuredError
    return value


def decode_bytes(value: Any) -> Any:
    """Replace Strands' markers by bytes, if encoding restores the markers exactly."""
    try:
        result = decode_bytes_values(value)
        same = _encode(encode_bytes_values(result)) == _encode(value)
    except (TypeError, ValueError, RecursionError):
        same = False
    if not same:
        raise UnstructuredError
    return result


def first_message(data: bytes) -> int:
    """Return the offset of the first message of an agent's snapshot."""
    if found := _HEAD.match(data):
        return found.end()
    document = load_document(data)
    content = document.get(_DATA) if isinstance(document, dict) else None
    if not isinstance(content, dict) or not isinstance(content.get(_MESSAGES), list):
        raise UnstructuredError
    before, _ = _serialize_frame(document)
    return len(before)


def loads_without_messages(data: bytes, first: int, stop: int) -> Any:
    """Parse a snapshot without its messages."""
    return load_document(data[: first - 1] + b"null" + data[stop + 1 :])


def join(document: Any, messages: list[bytes]) -> bytes:
    """Build a snapshot."""
    before, after = _serialize_frame(document)
    return b"".join((before, b", ".join(messages), after))


def message_at(data: bytes, start: int) -> tuple[Any, int]:
    """Parse one message of a snapshot; return it with its end."""
    size = _WINDOW
    while True:
        is_complete = start + size >= len(data)
        try:
            text, _ = codecs.utf_8_decode(data[start : start + size], "strict", is_complete)
            value, length = _decoder.raw_decode(text)
            break
        except (ValueError, RecursionError):
            if is_complete:
                value = None
                break
        size *= 8
    if not isinstance(value, dict):
        raise UnstructuredError
    stop = start + len(text[:length].encode())
    raw = data[start:stop]
    if _BYTES_MARKER in raw:
        value = decode_bytes(value)
    if dump_document(value) != raw:
        raise UnstructuredError
    return value, stop


def _serialize_frame(document: Any) -> tuple[bytes, bytes]:
    """Return the bytes before and after the messages."""
    before, after = b"", b""
    # A document that the store created may contain bytes, as the states of agents do.
    document = encode_bytes_values(document)
    for level in (document, document[_DATA]):
        inner = _DATA if level is document else _MESSAGES
        keys = list(level)
        at = keys.index(inner)
        before_keys = [f"{_encode(key)}: {_encode(level[key])}, " for key in keys[:at]]
        after_keys = [f", {_encode(key)}: {_encode(level[key])}" for key in keys[at + 1 :]]
        before += ("{" + "".join(before_keys) + _encode(inner) + ": ").encode()
        after = ("".join(after_keys) + "}").encode() + after
    return before + b"[", b"]" + after
