r"""Exact JSON: what goes in comes back equal, key order kept, whatever the database.

A payload is stored as the text ``json.dumps`` makes of it, because a JSON column type would refuse
``\u0000`` and lone surrogates, reorder keys and fold numbers. Four things are added to JSON:

* ``bytes`` become ``{"$bytes": "<base64>"}``;
* a text in which two lone surrogates meet, as after the joining of a stream's chunks, becomes
  ``{"$text": "<base64>"}``, because JSON would read the two as one character;
* a :class:`~django_agent_sessions.references.BlobRef`, which stands for a binary in a storage,
  becomes ``{"$blob": {"sha256": …, "size": …}}``;
* a dict that merely looks like such a marker, or like an escaped one, gets one more ``$``, so that
  ``{"$bytes": 1}`` is written ``{"$$bytes": 1}`` and read back as it was.
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

from .conf import AgentSessionsSettings, get_settings
from .exceptions import PayloadError
from .references import BlobRef

_BYTES = "$bytes"
_TEXT = "$text"
_BLOB = "$blob"
BLOB_MARKER = f'"{_BLOB}":'
"""What stands in the text of every payload that refers to a binary."""
_MARKER_LIKE = re.compile(r"\$+(?:bytes|text|blob)\Z")
# A quote right behind a brace begins a key: in a text or a longer key it would be escaped. And a
# marker is alone in its dict, as far as a text goes that is only a beginning.
_STRING = r'"(?:[^"\\]|\\.)*"'
_HASH = re.compile(
    r'(\{"\$blob":\{)"sha256":"[0-9a-f]{64}",'
    rf'(?="size":-?[0-9]+(?:,"media_type":{_STRING})?(?:,"prefix":{_STRING})?\}}\}}|[^}}]*\Z)'
)
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATES_MEET = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def refuse_constant(name: str) -> NoReturn:
    """Refuses a number that Python's own decoder takes, and JSON does not have."""
    raise ValueError(f"{name} is not JSON")


# Made once: json.loads makes a new one at each call that has an option.
_decoder = json.JSONDecoder(parse_constant=refuse_constant)
_parse = _decoder.decode
# Decoding goes around white space that `dumps` does not write, and takes as long again for it.
_scan = _decoder.scan_once  # type: ignore[attr-defined] # its types leave it out


def dumps(value: object, limits: AgentSessionsSettings | None = None) -> str:
    """Writes a value as text that :func:`loads` reads back equal.

    Tuples are written as lists, and bytearrays and memoryviews as bytes, as the SDKs' own stores
    would if they could.
    """
    limits = limits or get_settings()
    try:
        # Nearly all text can stay readable in the database; a lone surrogate cannot be UTF-8.
        text = _Writer(limits, encode_basestring).written(value)
        if not text.isascii() and _SURROGATE.search(text):
            spelled = _spell_out(value) if _SURROGATES_MEET.search(text) else value
            text = _Writer(limits, encode_basestring_ascii).written(spelled)
    except RecursionError:
        raise PayloadError("lists and dicts nest deeper than Python can follow here") from None
    except ValueError:
        # Only an integer: sys.set_int_max_str_digits() can be lower than MAX_INTEGER_DIGITS.
        raise PayloadError("an integer has more digits than this Python may write") from None
    size = len(text) if text.isascii() else len(text.encode())
    if size > limits.MAX_PAYLOAD_BYTES:
        raise PayloadError(
            f"the value is {size} bytes of JSON; MAX_PAYLOAD_BYTES allows "
            f"{limits.MAX_PAYLOAD_BYTES}"
        )
    return text


def loads(text: str) -> Any:
    """Reads what :func:`dumps` wrote."""
    try:
        try:
            value, end = _scan(text, 0)
        except StopIteration:
            end = -1
        if end != len(text):
            value = _parse(text)
        # Few payloads hold a marker: the search is much cheaper than walking every value.
        return _decode(value) if "$" in text and _has_marker(text) else value
    except RecursionError:
        raise ValueError("nested too deep") from None


def loads_all(texts: Sequence[str]) -> list[Any]:
    """Reads many texts, faster than one after the other."""
    try:
        # Where the scanner finds nothing at all, it ends the iteration: so it is strict.
        scanned = zip(texts, map(_scan, texts, repeat(0)), strict=True)
        return [
            value if end == len(text) and "$" not in text else loads(text)
            for text, (value, end) in scanned
        ]
    except RecursionError:
        raise ValueError("nested too deep") from None


def has_blobs(text: str) -> bool:
    """Tells whether a stored payload may refer to binaries, without reading it."""
    return BLOB_MARKER in text


def without_hashes(text: str) -> str:
    """Leaves the hashes of binaries out of a stored payload, to show it to people.

    Whoever knows a hash can test a guess of what it is of.
    """
    return _HASH.sub(r"\1", text) if BLOB_MARKER in text else text


def _has_marker(text: str) -> bool:
    return '$bytes":' in text or '$text":' in text or '$blob":' in text


class _Writer:
    """Writes a value bit by bit, which is faster than making a tree for ``json`` to write."""

    def __init__(self, limits: AgentSessionsSettings, quote: Callable[[str], str]) -> None:
        self._limits = limits
        self._quote = quote
        self._parts: list[str] = []
        self._put = self._parts.append

    def written(self, value: object) -> str:
        """Writes the value."""
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
        alone = len(value) == 1
        before = "{"
        for key, item in value.items():
            if not isinstance(key, str):
                raise PayloadError(
                    f"a dict key is of type {type(key).__name__}, at depth {depth}; "
                    "JSON has only text"
                )
            escape = "$" if alone and _MARKER_LIKE.match(key) else ""
            self._put(f"{before}{self._quote(escape + key)}:")
            self._write(item, depth + 1)
            before = ","
        self._put("}" if value else "{}")

    def _write_list(self, value: Sequence[Any], depth: int) -> None:
        self._check_depth(depth)
        before = "["
        for item in value:
            self._put(before)
            self._write(item, depth + 1)
            before = ","
        self._put("]" if value else "[]")

    def _write_rare(self, value: object, depth: int) -> None:
        # Not what a subclass says of itself: of an enum's member that would be its name.
        if isinstance(value, str):
            self._put(self._quote(value))
        elif isinstance(value, int):
            self._put(int.__repr__(_checked_integer(value, self._limits)))
        elif isinstance(value, float):
            if not math.isfinite(value):
                raise PayloadError(f"NaN or infinity at depth {depth}: JSON has no such number")
            self._put(float.__repr__(value))
        elif isinstance(value, bytes | bytearray | memoryview):
            self._put(_marked(_BYTES, value))
        elif isinstance(value, _SpelledOut):
            self._put(_marked(_TEXT, value.text.encode("utf-8", "surrogatepass")))
        elif isinstance(value, BlobRef):
            self._put(f"{{{BLOB_MARKER}")
            self._write_dict(_blob(value), 1)
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
                f"lists and dicts nest deeper than {self._limits.MAX_PAYLOAD_DEPTH} "
                "(MAX_PAYLOAD_DEPTH)"
            )


def _marked(marker: str, data: bytes | bytearray | memoryview) -> str:
    return f'{{"{marker}":"{base64.b64encode(data).decode("ascii")}"}}'


def _blob(reference: BlobRef) -> dict[str, object]:
    known: dict[str, object] = {"sha256": reference.sha256, "size": reference.size}
    if reference.media_type:
        known["media_type"] = reference.media_type
    if reference.prefix is not None:
        known["prefix"] = reference.prefix
    return known


@dataclass(frozen=True, slots=True)
class _SpelledOut:
    """A text that JSON would not read back as it was."""

    text: str


def _spell_out(value: Any) -> Any:
    """Marks each text in which two surrogates meet."""
    if isinstance(value, str) and _SURROGATES_MEET.search(value):
        return _SpelledOut(value)
    if isinstance(value, dict):
        if any(_SURROGATES_MEET.search(key) for key in value):
            raise PayloadError("two lone surrogates meet in a dict key: JSON would merge them")
        return {key: _spell_out(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_spell_out(item) for item in value]
    return value


def _checked_integer(value: int, limits: AgentSessionsSettings) -> int:
    # Below 64 bits no limit can be met; above, counting digits costs as much as writing them.
    if -(2**63) <= value < 2**63:
        return value
    # The bit length bounds the digits from both sides (log10(2) = 0.30103), without making them.
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
        raise ValueError("a marker without text")
    try:
        return base64.b64decode(item, validate=True)
    except binascii.Error:
        raise ValueError("a marker without base64") from None


def _decode_blob(item: object) -> BlobRef:
    if not isinstance(item, dict):
        raise ValueError("a marker without a reference")
    sha256, size = item.get("sha256"), item.get("size")
    media_type, prefix = item.get("media_type", ""), item.get("prefix")
    if (
        not isinstance(sha256, str)
        or not _SHA256.match(sha256)
        or type(size) is not int
        or not isinstance(media_type, str)
        or not isinstance(prefix, str | None)
    ):
        raise ValueError("a marker without a reference")
    return BlobRef(sha256, size, media_type, prefix)
