"""Detection of the images that a page may show, by their first bytes."""

from __future__ import annotations

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8\xff"
_GIFS = (b"GIF87a", b"GIF89a")

DISPLAYABLE_TYPES = frozenset({"", "image/png", "image/jpeg", "image/gif", "image/webp"})
"""Declared media types of displayable images; the bytes must be checked as well."""


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
