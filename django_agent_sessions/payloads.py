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
import re
from typing import Any

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
_PLAIN_TYPES = frozenset({str, bool, type(None)})


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


# Made once: json.dumps and json.loads make a new one at each call that has an option.
_readable = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_ascii = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode
_decoder = json.JSONDecoder(parse_constant=_refuse_constant)
_parse = _decoder.decode
# Decoding goes around white space that `dumps` does not write, and takes as long again for it.
_scan = _decoder.scan_once  # type: ignore[attr-defined]


def dumps(value: object) -> str:
    """Writes a value as text that :func:`loads` reads back equal.

    Tuples are written as lists, and bytearrays and memoryviews as bytes, as the SDKs' own stores
    would if they could.

    Args:
        value: JSON data, with ``bytes`` allowed anywhere a value may stand.

    Returns:
        JSON text that any database's text column takes: no NUL, no lone surrogate.

    Raises:
        PayloadError: The value is not JSON (NaN, a key that is not text, an object), or is over
            one of the limits ``MAX_PAYLOAD_BYTES``, ``MAX_PAYLOAD_DEPTH`` and
            ``MAX_INTEGER_DIGITS``. The error names the place, never the value.
    """
    limits = get_settings()
    try:
        encoded = _encode(value, limits, 1)
        text = _readable(encoded)
    except RecursionError:
        raise PayloadError("lists and dicts nest deeper than Python can follow here") from None
    except ValueError:
        # Only an integer: sys.set_int_max_str_digits() can be lower than MAX_INTEGER_DIGITS.
        raise PayloadError("an integer has more digits than this Python may write") from None
    # Nearly all text can stay readable in the database; a lone surrogate cannot be UTF-8.
    if not text.isascii() and _SURROGATE.search(text):
        text = _ascii(_spell_out(encoded) if _SURROGATES_MEET.search(text) else encoded)
    size = len(text) if text.isascii() else len(text.encode())
    if size > limits.MAX_PAYLOAD_BYTES:
        raise PayloadError(
            f"the value is {size} bytes of JSON; MAX_PAYLOAD_BYTES allows "
            f"{limits.MAX_PAYLOAD_BYTES}"
        )
    return text


def loads(text: str) -> Any:
    """Reads what :func:`dumps` wrote.

    Args:
        text: JSON text.

    Returns:
        The value.

    Raises:
        ValueError: The text is not what :func:`dumps` writes.
    """
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


def has_blobs(text: str) -> bool:
    """Tells whether a stored payload may refer to binaries, without reading it.

    Args:
        text: What :func:`dumps` wrote.

    Returns:
        False if it certainly does not.
    """
    return BLOB_MARKER in text


def without_hashes(text: str) -> str:
    """Leaves the hashes of binaries out of a stored payload, to show it to people.

    Whoever knows a hash can test a guess of what it is of.

    Args:
        text: What :func:`dumps` wrote, or the beginning of it.

    Returns:
        The text, in which references tell size and media type only.
    """
    return _HASH.sub(r"\1", text) if BLOB_MARKER in text else text


def _has_marker(text: str) -> bool:
    return '$bytes":' in text or '$text":' in text or '$blob":' in text


def _encode(value: object, limits: AgentSessionsSettings, depth: int) -> object:
    kind = type(value)
    if kind in _PLAIN_TYPES:
        return value
    if kind is dict:
        return _encode_dict(value, limits, depth)  # type: ignore[arg-type]
    if kind is list:
        _check_depth(depth, limits)
        return [_encode(item, limits, depth + 1) for item in value]  # type: ignore[attr-defined]
    return _encode_rare(value, limits, depth)


def _encode_dict(
    value: dict[Any, Any], limits: AgentSessionsSettings, depth: int
) -> dict[str, object]:
    _check_depth(depth, limits)
    encoded = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise PayloadError(
                f"a dict key is of type {type(key).__name__}, at depth {depth}; JSON has only text"
            )
        # str() of an enum's member would be its name.
        encoded[str.__str__(key)] = _encode(item, limits, depth + 1)
    if len(encoded) == 1:
        key = next(iter(encoded))
        if _MARKER_LIKE.match(key):
            return {"$" + key: encoded[key]}
    return encoded


def _encode_rare(value: object, limits: AgentSessionsSettings, depth: int) -> object:
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        # Below 64 bits no limit can be met; above, counting digits costs as much as writing them.
        if -(2**63) <= value < 2**63:
            return int(value)
        return _checked_integer(int(value), limits)
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise PayloadError(f"NaN or infinity at depth {depth}: JSON has no such number")
        return float(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return {_BYTES: base64.b64encode(value).decode("ascii")}
    if isinstance(value, BlobRef):
        return {_BLOB: _blob(value)}
    if isinstance(value, dict):
        return _encode_dict(value, limits, depth)
    if isinstance(value, list | tuple):
        _check_depth(depth, limits)
        return [_encode(item, limits, depth + 1) for item in value]
    raise PayloadError(
        f"a value of type {type(value).__name__} at depth {depth} is neither JSON nor bytes"
    )


def _blob(reference: BlobRef) -> dict[str, object]:
    known: dict[str, object] = {"sha256": reference.sha256, "size": reference.size}
    if reference.media_type:
        known["media_type"] = reference.media_type
    if reference.prefix is not None:
        known["prefix"] = reference.prefix
    return known


def _spell_out(value: Any) -> Any:
    """Replaces each text in which two surrogates meet by its marker."""
    if isinstance(value, str) and _SURROGATES_MEET.search(value):
        return {_TEXT: base64.b64encode(value.encode("utf-8", "surrogatepass")).decode("ascii")}
    if isinstance(value, dict):
        if any(_SURROGATES_MEET.search(key) for key in value):
            raise PayloadError("two lone surrogates meet in a dict key: JSON would merge them")
        return {key: _spell_out(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_spell_out(item) for item in value]
    return value


def _checked_integer(value: int, limits: AgentSessionsSettings) -> int:
    # The bit length bounds the digits from both sides (log10(2) = 0.30103), without making them.
    allowed = min(limits.MAX_INTEGER_DIGITS, 4300)
    if value.bit_length() * 0.30103 > allowed + 1 or abs(value) >= 10**allowed:
        raise PayloadError(f"an integer has more than {allowed} digits (MAX_INTEGER_DIGITS)")
    return value


def _check_depth(depth: int, limits: AgentSessionsSettings) -> None:
    if depth > limits.MAX_PAYLOAD_DEPTH:
        raise PayloadError(
            f"lists and dicts nest deeper than {limits.MAX_PAYLOAD_DEPTH} (MAX_PAYLOAD_DEPTH)"
        )


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
