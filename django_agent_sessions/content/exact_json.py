r"""Exact JSON: every value is read back equal and with the same key order, on every database.

A payload is stored as the text of ``json.dumps``, because a JSON column type would reject
``\u0000`` and lone surrogates, reorder keys and change numbers. Five things are added to JSON:

* ``bytes`` become ``{"$bytes": "<base64>"}``;
* a text in which two lone surrogates are adjacent, as after joining the chunks of a stream, becomes
  ``{"$text": "<base64>"}``, because JSON would read the two as one character;
* NaN and the infinities become ``{"$float": "NaN"}``, because a JSON parser rejects their names;
* a :class:`~.blob_refs.BlobRef`, the reference to a binary in a storage,
  becomes ``{"$blob": {"sha256": …, "size": …}}``;
* a dict that has the form of such a marker, or of an escaped one, gets another ``$``:
  ``{"$bytes": 1}`` is written as ``{"$$bytes": 1}`` and read back unchanged.

A key that is a number, a boolean or None is written as the text that ``json.dumps`` makes of it.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any, NoReturn

from django_agent_sessions.conf import AgentSessionsSettings, get_settings
from django_agent_sessions.content.blob_refs import BlobRef
from django_agent_sessions.exceptions import PayloadError

_BYTES = "$bytes"
_TEXT = "$text"
_FLOAT = "$float"
_BLOB = "$blob"
BLOB_MARKER = f'"{_BLOB}":'
"""The text of every payload that refers to a binary contains this."""
_MARKER_LIKE = re.compile(r"\$+(?:bytes|text|float|blob)\Z")
# Read as these objects, so that two readings of a payload are equal: NaN is equal only to itself.
_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
# A quote directly after a brace begins a key: in a text or a longer key it would be escaped. A
# marker is the only key of its dict, which a truncated text may not show.
_STRING = r'"(?:[^"\\]|\\.)*"'
_HASH = re.compile(
    r'(\{"\$blob":\{)"sha256":"[0-9a-f]{64}",'
    rf'(?="size":-?[0-9]+(?:,"media_type":{_STRING})?(?:,"prefix":{_STRING})?\}}\}}|[^}}]*\Z)'
)
_MARKERS = [f'{key}":' for key in (_BYTES, _TEXT, _FLOAT, _BLOB)]
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ADJACENT_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def reject_constant(name: str) -> NoReturn:
    """Reject ``NaN`` and ``Infinity``, which Python's decoder accepts and JSON does not have."""
    raise ValueError(f"{name} is not JSON")


# Created once: json.loads creates a new decoder at each call that has an option.
_decoder = json.JSONDecoder(parse_constant=reject_constant)
_parse = _decoder.decode
# decode() also skips white space, which `dumps` does not write, and takes twice as long.
_scan = _decoder.scan_once  # type: ignore[attr-defined] # its types leave it out


def dumps(value: object, limits: AgentSessionsSettings | None = None) -> str:
    """Serialize a value as text that :func:`loads` reads back equal.

    Tuples are written as lists; bytearrays and memoryviews as bytes; keys that are no strings as
    :func:`key_text` returns them. The text contains no NUL and no lone surrogate. Raises
    ``PayloadError``, whose message contains no value, if the value is not JSON or exceeds a limit.
    """
    limits = limits or get_settings()
    try:
        # Text stays readable in the database unless it has lone surrogates, which UTF-8 lacks.
        text = _Writer(limits, encode_basestring).write(value)
        if not text.isascii() and _SURROGATE.search(text):
            wrapped = _wrap_surrogates(value) if _ADJACENT_SURROGATES.search(text) else value
            text = _Writer(limits, encode_basestring_ascii).write(wrapped)
    except RecursionError:
        raise PayloadError(
            "lists and dicts are nested deeper than Python's recursion limit"
        ) from None
    except ValueError:
        # Only from an integer: sys.set_int_max_str_digits() can be lower than MAX_INTEGER_DIGITS.
        raise PayloadError(
            "an integer has more digits than sys.set_int_max_str_digits() allows"
        ) from None
    size = len(text) if text.isascii() else len(text.encode())
    if size > limits.MAX_PAYLOAD_BYTES:
        raise PayloadError(
            f"the value is {size} bytes of JSON; MAX_PAYLOAD_BYTES allows "
            f"{limits.MAX_PAYLOAD_BYTES}"
        )
    return text


def loads(text: str) -> Any:
    """Parse a text that :func:`dumps` wrote. Raises ``ValueError`` if it is no such text."""
    try:
        try:
            value, end = _scan(text, 0)
        except StopIteration:
            end = -1
        if end != len(text):
            value = _parse(text)
        # Few payloads contain a marker: searching is much faster than walking every value.
        return _decode(value) if "$" in text and _has_marker(text) else value
    except RecursionError:
        raise ValueError("nested too deeply") from None


def loads_all(texts: Sequence[str]) -> list[Any]:
    """Parse many texts, faster than with one call each."""
    try:
        # Strict, because the scanner raises StopIteration for a text without a value.
        scanned = zip(texts, map(_scan, texts, repeat(0)), strict=True)
        return [
            value if end == len(text) and "$" not in text else loads(text)
            for text, (value, end) in scanned
        ]
    except RecursionError:
        raise ValueError("nested too deeply") from None


def key_text(key: Any) -> str | None:
    """Return a dict key as ``json.dumps`` writes it; None if it cannot be a key."""
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    if isinstance(key, int):
        return int.__repr__(key)
    return _float_text(key) if isinstance(key, float) else None


def has_blobs(text: str) -> bool:
    """Return whether a stored payload may refer to binaries, without parsing it."""
    return BLOB_MARKER in text


def without_hashes(text: str) -> str:
    """Remove the hashes of binaries from a stored payload before it is shown to users.

    A hash would let its reader test guesses of the content.
    """
    return _HASH.sub(r"\1", text) if BLOB_MARKER in text else text


def _has_marker(text: str) -> bool:
    return any(marker in text for marker in _MARKERS)


class _Writer:
    """Write a value piece by piece, faster than building a tree for ``json`` to write."""

    def __init__(self, limits: AgentSessionsSettings, quote: Callable[[str], str]) -> None:
        self._limits = limits
        self._quote = quote
        self._parts: list[str] = []
        self._put = self._parts.append

    def write(self, value: object) -> str:
        self._write(value, 1)
        return "".join(self._parts)

    def _write(self, value: Any, depth: int) -> None:
        kind = type(value)
        if kind is str:
            self._put(self._quote(value))
        elif kind is dict:
            self._write_dict(value, depth)
        elif kind is list:
            self._write_list(value, depth)
        elif value is None:
            self._put("null")
        elif value is True:
            self._put("true")
        elif value is False:
            self._put("false")
        else:
            self._write_rare(value, depth)

    def _write_dict(self, value: dict[Any, Any], depth: int) -> None:
        self._check_depth(depth)
        is_single = len(value) == 1
        separator = "{"
        begin = len(self._parts)
        for key, item in value.items():
            if not isinstance(key, str):
                del self._parts[begin:]
                return self._write_dict(self._with_text_keys(value, depth), depth)
            escape = "$" if is_single and _MARKER_LIKE.match(key) else ""
            self._put(f"{separator}{self._quote(escape + key)}:")
            self._write(item, depth + 1)
            separator = ","
        return self._put("}" if value else "{}")

    def _with_text_keys(self, value: dict[Any, Any], depth: int) -> dict[str, Any]:
        # Of two equal keys, the later one is kept, as by a parser of what `json.dumps` writes: a
        # redaction would not see the other value.
        changed = {}
        for key, item in value.items():
            if type(key) is int:
                _checked_integer(key, self._limits)
            text = key_text(key)
            if text is None:
                raise PayloadError(
                    f"a dict key is of type {type(key).__name__}, at depth {depth}; JSON allows "
                    "only strings, numbers, booleans and None"
                )
            changed[text] = item
        return changed

    def _write_list(self, value: Sequence[Any], depth: int) -> None:
        self._check_depth(depth)
        separator = "["
        for item in value:
            self._put(separator)
            self._write(item, depth + 1)
            separator = ","
        self._put("]" if value else "[]")

    def _write_rare(self, value: object, depth: int) -> None:
        # Not str() or repr() of a subclass: for an enum's member that would be its name.
        if isinstance(value, str):
            self._put(self._quote(value))
        elif isinstance(value, int):
            self._put(int.__repr__(_checked_integer(value, self._limits)))
        elif isinstance(value, float):
            text = _float_text(value)
            self._put(text if math.isfinite(value) else f'{{"{_FLOAT}":"{text}"}}')
        elif isinstance(value, bytes | bytearray | memoryview):
            self._put(_encode_bytes(_BYTES, value))
        elif isinstance(value, _SurrogateText):
            self._put(_encode_bytes(_TEXT, value.text.encode("utf-8", "surrogatepass")))
        elif isinstance(value, BlobRef):
            self._put(f"{{{BLOB_MARKER}")
            self._write_dict(_blob_dict(value), 1)
            self._put("}")
        elif isinstance(value, dict):
            self._write_dict(value, depth)
        elif isinstance(value, list | tuple):
            self._write_list(value, depth)
        else:
            raise PayloadError(
                f"a value of type {type(value).__name__} at depth {depth} is neither JSON nor bytes"
            )

    def _check_depth(self, depth: int) -> None:
        if depth > self._limits.MAX_PAYLOAD_DEPTH:
            raise PayloadError(
                f"lists and dicts are nested deeper than {self._limits.MAX_PAYLOAD_DEPTH} "
                "(MAX_PAYLOAD_DEPTH)"
            )


def _float_text(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (math.inf, -math.inf):
        return "Infinity" if value > 0 else "-Infinity"
    return float.__repr__(value)


def _encode_bytes(marker: str, data: bytes | bytearray | memoryview) -> str:
    return f'{{"{marker}":"{base64.b64encode(data).decode("ascii")}"}}'


def _blob_dict(reference: BlobRef) -> dict[str, object]:
    fields: dict[str, object] = {"sha256": reference.sha256, "size": reference.size}
    if reference.media_type:
        fields["media_type"] = reference.media_type
    if reference.prefix is not None:
        fields["prefix"] = reference.prefix
    return fields


@dataclass(frozen=True, slots=True)
class _SurrogateText:
    """A text in which two lone surrogates are adjacent."""

    text: str


def _wrap_surrogates(value: Any) -> Any:
    """Wrap each text in which two lone surrogates are adjacent."""
    if isinstance(value, str) and _ADJACENT_SURROGATES.search(value):
        return _SurrogateText(value)
    if isinstance(value, dict):
        if any(_ADJACENT_SURROGATES.search(key) for key in value if isinstance(key, str)):
            raise PayloadError(
                "two lone surrogates are adjacent in a dict key: JSON would merge them"
            )
        return {key: _wrap_surrogates(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_wrap_surrogates(item) for item in value]
    return value


def _checked_integer(value: int, limits: AgentSessionsSettings) -> int:
    # An integer of 64 bits exceeds no limit; counting the digits of others is as slow as writing.
    if -(2**63) <= value < 2**63:
        return value
    # The bit length estimates the number of digits (log10(2) = 0.30103) without writing them.
    allowed = min(limits.MAX_INTEGER_DIGITS, 4300)
    if value.bit_length() * 0.30103 > allowed + 1 or abs(value) >= 10**allowed:
        raise PayloadError(f"an integer has more than {allowed} digits (MAX_INTEGER_DIGITS)")
    return value


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        if len(value) == 1:
            key, item = next(iter(value.items()))
            if key == _BYTES:
                return _decode_bytes(item)
            if key == _TEXT:
                return _decode_bytes(item).decode("utf-8", "surrogatepass")
            if key == _FLOAT:
                # An earlier version wrote other values of this key as they are.
                known = isinstance(item, str) and item in _NON_FINITE
                return _NON_FINITE[item] if known else {key: _decode(item)}
            if key == _BLOB:
                return _decode_blob(item)
            if _MARKER_LIKE.match(key):
                return {key[1:]: _decode(item)}
        return {key: _decode(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_decode(item) for item in value]
    return value


def _decode_bytes(item: object) -> bytes:
    if not isinstance(item, str):
        raise ValueError("the value of a marker is not a string")
    try:
        return base64.b64decode(item, validate=True)
    except binascii.Error:
        raise ValueError("the value of a marker is not base64") from None


def _decode_blob(item: object) -> BlobRef:
    if not isinstance(item, dict):
        raise ValueError("the value of a $blob marker is not a reference")
    sha256, size = item.get("sha256"), item.get("size")
    media_type, prefix = item.get("media_type", ""), item.get("prefix")
    if (
        not isinstance(sha256, str)
        or not _SHA256.match(sha256)
        or type(size) is not int
        or not isinstance(media_type, str)
        or not isinstance(prefix, str | None)
    ):
        raise ValueError("the value of a $blob marker is not a reference")
    return BlobRef(sha256, size, media_type, prefix)
