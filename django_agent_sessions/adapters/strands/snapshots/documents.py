"""Snapshots as the bytes that Strands' ``SnapshotSessionManager`` writes: apart, and together.

A document is ``json.dumps`` with its default separators and without ASCII escapes. It is taken
apart only if the parts make the same bytes again; anything else is for others to keep verbatim.

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
    """These bytes are not what Strands writes there, and have to be kept as they are."""


def dumps(value: Any) -> bytes:
    """Writes JSON as Strands does, with markers in the place of bytes."""
    try:
        return _encode(encode_bytes_values(value)).encode()
    except (TypeError, ValueError, RecursionError):
        # Not raised here, where the error's context would hold the content.
        pass
    raise UnstructuredError


def loads(data: bytes) -> Any:
    """Reads a whole document, with markers in the place of bytes."""
    try:
        value = json.loads(data.decode())
        same = _encode(value).encode() == data
    except (TypeError, ValueError, RecursionError):
        same = False
    if not same:
        raise UnstructuredError
    return value


def decoded(value: Any) -> Any:
    """Puts bytes in the place of Strands' markers, if the markers come back as they were."""
    try:
        found = decode_bytes_values(value)
        same = _encode(encode_bytes_values(found)) == _encode(value)
    except (TypeError, ValueError, RecursionError):
        same = False
    if not same:
        raise UnstructuredError
    return found


def first_message(data: bytes) -> int:
    """Finds where the messages of an agent's snapshot begin."""
    if found := _HEAD.match(data):
        return found.end()
    document = loads(data)
    content = document.get(_DATA) if isinstance(document, dict) else None
    if not isinstance(content, dict) or not isinstance(content.get(_MESSAGES), list):
        raise UnstructuredError
    before, _ = _around(document)
    return len(before)


def without_messages(data: bytes, first: int, stop: int) -> Any:
    """Reads all of a snapshot but its messages."""
    return loads(data[: first - 1] + b"null" + data[stop + 1 :])


def with_messages(document: Any, messages: list[bytes]) -> tuple[bytes, int, int]:
    """Makes a snapshot of its parts."""
    before, behind = _around(document)
    between = b", ".join(messages)
    return b"".join((before, between, behind)), len(before), len(before) + len(between)


def message_at(data: bytes, place: int) -> tuple[Any, int]:
    """Reads one message of a snapshot."""
    size = _WINDOW
    while True:
        whole = place + size >= len(data)
        try:
            text, _ = codecs.utf_8_decode(data[place : place + size], "strict", whole)
            value, length = _decoder.raw_decode(text)
            break
        except (ValueError, RecursionError):
            if whole:
                value = None
                break
        size *= 8
    if not isinstance(value, dict):
        raise UnstructuredError
    stop = place + len(text[:length].encode())
    raw = data[place:stop]
    if _BYTES_MARKER in raw:
        value = decoded(value)
    if dumps(value) != raw:
        raise UnstructuredError
    return value, stop


def _around(document: Any) -> tuple[bytes, bytes]:
    """What stands before and behind the messages."""
    before, behind = b"", b""
    # What the store itself made may hold bytes, as the states of agents do.
    document = encode_bytes_values(document)
    for level in (document, document[_DATA]):
        inner = _DATA if level is document else _MESSAGES
        keys = list(level)
        at = keys.index(inner)
        early = [f"{_encode(key)}: {_encode(level[key])}, " for key in keys[:at]]
        late = [f", {_encode(key)}: {_encode(level[key])}" for key in keys[at + 1 :]]
        before += ("{" + "".join(early) + _encode(inner) + ": ").encode()
        behind = ("".join(late) + "}").encode() + behind
    return before + b"[", b"]" + behind
