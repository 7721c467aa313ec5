"""Pictures without a library: one that is drawn, for a conversation, and PNG files made smaller."""

from __future__ import annotations

import struct
import zlib

Colour = tuple[int, int, int]
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def parcel(width: int = 360, height: int = 240) -> bytes:
    """Draws a parcel with a dent, as a customer would photograph it."""
    rows = (
        b"\0" + bytes(part for x in range(width) for part in _parcel_at(x / width, y / height))
        for y in range(height)
    )
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return _png((b"IHDR", header), (b"IDAT", zlib.compress(b"".join(rows), 9)))


def _parcel_at(x: float, y: float) -> Colour:
    dent = abs(x - 0.74) + abs(y - 0.3) < 0.12
    if 0.2 < x < 0.8 and 0.18 < y < 0.88 and not (dent and x + (1 - y) > 1.38):
        if dent:
            return (121, 85, 51)
        if 0.46 < x < 0.54:
            return (214, 190, 150)
        if 0.24 < x < 0.42 and 0.62 < y < 0.8:
            return (238, 238, 232) if int(y * 60) % 2 or x > 0.4 else (150, 150, 150)
        return (181, 136, 88) if y > 0.28 else (196, 152, 103)
    return (222, 226, 230) if y < 0.8 else (186, 190, 196)


def _png(*chunks: tuple[bytes, bytes]) -> bytes:
    parts = [_SIGNATURE]
    for kind, data in (*chunks, (b"IEND", b"")):
        checksum = zlib.crc32(kind + data)
        parts.append(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum))
    return b"".join(parts)


def smaller(png: bytes) -> bytes:
    """Packs a PNG anew with more effort than a browser takes for it; no pixel changes."""
    kept: list[tuple[bytes, bytes]] = []
    pixels = b""
    place = len(_SIGNATURE)
    while place < len(png):
        (length,) = struct.unpack_from(">I", png, place)
        kind, data = png[place + 4 : place + 8], png[place + 8 : place + 8 + length]
        place += 12 + length
        if kind == b"IDAT":
            pixels += data
        elif kind in {b"IHDR", b"PLTE", b"tRNS", b"sRGB"}:
            kept.append((kind, data))
    packed = zlib.compress(zlib.decompress(pixels), 9)
    made = _png(*kept, (b"IDAT", packed))
    return made if len(made) < len(png) else png
