"""Which binaries of a transcript a page may show as images: told by their first bytes."""

from __future__ import annotations

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8\xff"
_GIFS = (b"GIF87a", b"GIF89a")

CLAIMED = frozenset({"", "image/png", "image/jpeg", "image/gif", "image/webp"})
"""What an image that can be shown claims to be; a claim alone proves nothing."""


def image_type(data: bytes) -> str:
    """Tells the media type of an image that no browser takes for anything but pixels."""
    if data.startswith(_PNG):
        return "image/png"
    if data.startswith(_JPEG):
        return "image/jpeg"
    if data.startswith(_GIFS):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return ""
