"""Media type and size of the binaries in payloads, without decoding them; and their bytes."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, NamedTuple, TypeGuard
from urllib.parse import unquote_to_bytes

from django_agent_sessions.content.blob_refs import BlobRef

EncodedText = str | BlobRef
"""A text with an encoded binary, or the reference that replaces it."""

_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,60}/[a-z0-9][a-z0-9.+-]{0,126}\Z")
_HEADER_CAP = 400
_BASE64 = ";base64"

_DOCUMENT_TYPES = {
    "pdf": "application/pdf",
    "csv": "text/csv",
    "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "html": "text/html",
    "txt": "text/plain",
    "md": "text/markdown",
}
_TYPES = {
    "image/jpg": "image/jpeg",
    "image/svg": "image/svg+xml",
    "audio/mp3": "audio/mpeg",
    "audio/mpga": "audio/mpeg",
    "audio/m4a": "audio/mp4",
    "audio/mka": "audio/x-matroska",
    "audio/mkv": "audio/x-matroska",
    "audio/x-aac": "audio/aac",
    "audio/pcm16": "audio/pcm",
    "video/flv": "video/x-flv",
    "video/mkv": "video/x-matroska",
    "video/mov": "video/quicktime",
    "video/mpg": "video/mpeg",
    "video/three_gp": "video/3gpp",
    "video/wmv": "video/x-ms-wmv",
}
_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8\xff"
_GIFS = (b"GIF87a", b"GIF89a")

DISPLAYABLE_TYPES = frozenset({"", "image/png", "image/jpeg", "image/gif", "image/webp"})
"""Declared media types of displayable images; the bytes must be checked as well."""


class Media(NamedTuple):
    """Media type, size and location of a binary."""

    media_type: str = ""
    """The media type, or empty."""

    size: int | None = None
    """The size of an inline binary in bytes, or ``None``."""

    url: str = ""
    """The URL of a binary that is not inline."""


def media_type(family: str, file_format: object) -> str:
    """Return the media type of a framework's file format, or an empty string."""
    if not isinstance(file_format, str):
        return ""
    file_format = file_format.lower()
    if family == "document":
        return _DOCUMENT_TYPES.get(file_format, "")
    candidate_type = f"{family}/{file_format}"
    return _TYPES.get(candidate_type) or _valid_media_type(candidate_type)


def image_type(data: bytes) -> str:
    """Return the media type of an image that browsers never execute, or an empty string."""
    if data.startswith(_PNG):
        return "image/png"
    if data.startswith(_JPEG):
        return "image/jpeg"
    if data.startswith(_GIFS):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return ""


def is_encoded_text(value: object) -> TypeGuard[EncodedText]:
    """Return whether a value is a text, or a reference that replaces a text."""
    return isinstance(value, str) or (isinstance(value, BlobRef) and value.prefix is not None)


def is_binary(value: object) -> TypeGuard[bytes | bytearray | memoryview | BlobRef]:
    """Return whether a value is bytes, or a reference that replaces bytes."""
    if isinstance(value, BlobRef):
        return value.prefix is None
    return isinstance(value, bytes | bytearray | memoryview)


def binary_size(value: bytes | bytearray | memoryview | BlobRef) -> int:
    """Return the size in bytes."""
    return value.size if isinstance(value, BlobRef) else len(value)


def base64_size(encoded: EncodedText, start: int = 0) -> int:
    """Return the decoded size of base64 text in bytes, without decoding it."""
    if isinstance(encoded, BlobRef):
        return encoded.size
    length = len(encoded) - start - encoded.count("\n", start) - encoded.count("\r", start)
    # Padding is at the end: at most two "=" and a line break.
    return (length - encoded.count("=", max(start, len(encoded) - 4))) * 3 // 4


def media_from_url(reference: EncodedText) -> Media:
    """Return the media at a URL, which may be a data URL (RFC 2397)."""
    if isinstance(reference, BlobRef):
        if not reference.prefix:
            return Media(size=reference.size)
        media = media_from_url(reference.prefix)
        return media if media.size is None else media._replace(size=reference.size)
    if reference[:5].lower() != "data:":
        return Media(url=reference)
    comma = reference.find(",", 0, _HEADER_CAP)
    if comma < 0:
        return Media()
    header = reference[5:comma].lower()
    size = base64_size(reference, comma + 1) if header.endswith(_BASE64) else None
    return Media(_valid_media_type(header.partition(";")[0].strip()), size)


def media_from_data(encoded: EncodedText) -> Media:
    """Return the media of inline data: a data URL, or plain base64."""
    if isinstance(encoded, BlobRef) or encoded[:5].lower() == "data:":
        return media_from_url(encoded)
    return Media(size=base64_size(encoded))


def decode_binary(value: Any) -> bytes | BlobRef | None:
    """Return the bytes or the reference of a value in any encoding of the frameworks."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, dict) and value.get("__bytes_encoded__") is True:
        value = value.get("data")
    if isinstance(value, BlobRef):
        return value
    if not isinstance(value, str) or value[:8].lower().startswith(("http:", "https:", "s3:")):
        return None
    if value[:5].lower() != "data:":
        return _decode_base64(value)
    header, comma, data = value.partition(",")
    if not comma:
        return None
    if header.lower().endswith(";base64"):
        return _decode_base64(data)
    return unquote_to_bytes(data)


def _decode_base64(text: str) -> bytes | None:
    compact = "".join(text.split()).rstrip("=")
    try:
        return base64.b64decode(compact + "=" * (-len(compact) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def _valid_media_type(candidate: str) -> str:
    return candidate if _MEDIA_TYPE.match(candidate) else ""
