"""Extraction of large binaries from a payload."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django_agent_sessions import conf
from django_agent_sessions.conf import AgentSessionsSettings
from django_agent_sessions.content import dialects
from django_agent_sessions.content.blob_refs import DATA_URL_PREFIX, BlobRef
from django_agent_sessions.content.dialects.media import image_type
from django_agent_sessions.exceptions import PayloadError

_ROUGHLY_BASE64 = re.compile(r"[A-Za-z0-9+/]+")
_SIGNATURES = (
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"ID3", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"\x1aE\xdf\xa3", "video/webm"),
)


@dataclass(slots=True)
class ExtractedPayload:
    """A payload without its large binaries, and the binaries."""

    value: Any
    binaries: dict[BlobRef, bytes] = field(default_factory=dict, repr=False)


def extract_binaries(
    value: Any, *, limited: bool = True, settings: AgentSessionsSettings | None = None
) -> ExtractedPayload:
    """Replace the large binaries in a payload with references, if ``BLOB_STORAGE`` is set.

    These are bytes, data URLs, and base64 under the keys that frameworks use. A text that could
    not be restored exactly, such as base64 with line breaks, stays in the payload.
    """
    settings = settings or conf.get_settings()
    if settings.BLOB_STORAGE is None:
        return ExtractedPayload(value)
    extraction = ExtractedPayload(value)
    try:
        extraction.value = _extract(value, "", settings.BLOB_MIN_BYTES, extraction.binaries)
    except RecursionError:
        # Serialization raises the error.
        return ExtractedPayload(value)
    if limited:
        _check_limits(extraction.binaries, settings)
    return extraction


def _check_limits(binaries: Mapping[BlobRef, bytes], settings: AgentSessionsSettings) -> None:
    for reference in binaries:
        if reference.size > settings.MAX_BLOB_BYTES:
            raise PayloadError(
                f"a binary has {reference.size} bytes, but MAX_BLOB_BYTES is "
                f"{settings.MAX_BLOB_BYTES}"
            )
    if len(binaries) > settings.MAX_BLOBS:
        raise PayloadError(
            f"a message has {len(binaries)} large binaries, but MAX_BLOBS is {settings.MAX_BLOBS}"
        )


def detect_media_type(data: bytes) -> str:
    """Return the media type of bytes by their first bytes, or an empty string."""
    if displayable := image_type(data[:16]):
        return displayable
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        return "audio/wav"
    if data[4:8] == b"ftyp":
        return "video/mp4"
    return next((type_ for prefix, type_ in _SIGNATURES if data.startswith(prefix)), "")


def _extract(value: Any, key: str, minimum: int, binaries: dict[BlobRef, bytes]) -> Any:
    if isinstance(value, str):
        if len(value) * 3 < minimum * 4 or (decoded := _decode(value, key)) is None:
            return value
        prefix, data = decoded
        return _reference(data, prefix, minimum, binaries) or value
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        return _reference(data, None, minimum, binaries) or value
    if isinstance(value, dict):
        changed = {
            name: item if type(item) in _SMALL else _extract(item, name, minimum, binaries)
            for name, item in value.items()
        }
        unchanged = all(changed[name] is item for name, item in value.items())
        return value if unchanged else changed
    if isinstance(value, list | tuple):
        items = [
            item if type(item) in _SMALL else _extract(item, key, minimum, binaries)
            for item in value
        ]
        unchanged = all(one is other for one, other in zip(items, value, strict=True))
        return value if unchanged else items
    return value


_SMALL = frozenset({int, float, bool, type(None)})


def _reference(
    data: bytes, prefix: str | None, minimum: int, binaries: dict[BlobRef, bytes]
) -> BlobRef | None:
    if len(data) < minimum:
        return None
    reference = BlobRef(
        sha256=hashlib.sha256(data).hexdigest(),
        size=len(data),
        media_type=detect_media_type(data),
        prefix=prefix,
    )
    binaries.setdefault(reference, data)
    return reference


def _decode(text: str, key: str) -> tuple[str, bytes] | None:
    """Decode base64 if encoding the bytes again results in the same text; else return None."""
    header = DATA_URL_PREFIX.match(text)
    prefix = header[0] if header else ""
    # Under other keys than those of the frameworks a text may be anything.
    if not header and (key not in dialects.vocabulary().base64 or not _ROUGHLY_BASE64.match(text)):
        return None
    encoded = text[len(prefix) :]
    try:
        data = base64.b64decode(encoded, validate=True)
    except ValueError:
        return None
    return (prefix, data) if base64.b64encode(data).decode("ascii") == encoded else None
