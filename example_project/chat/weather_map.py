"""A picture of the weather, drawn without a library for it: the tool that returns an image."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final

Colour = tuple[int, int, int]

WIDTH: Final = 320
HEIGHT: Final = 200

_SKIES: dict[str, tuple[Colour, Colour]] = {
    "sun": ((120, 184, 240), (198, 226, 250)),
    "cloud": ((140, 168, 196), (206, 218, 228)),
    "rain": ((94, 116, 142), (160, 178, 196)),
    "snow": ((160, 178, 200), (228, 236, 244)),
}
_HILL: Colour = (92, 142, 104)
_SNOWY: Colour = (240, 244, 248)
_SUN: Colour = (252, 204, 84)
_CLOUD: Colour = (246, 248, 250)
_DARK_CLOUD: Colour = (188, 198, 208)
_DROP: Colour = (60, 110, 190)
_WORDS = {"sun": ("sunny", "clear"), "rain": ("rain",), "snow": ("snow",), "cloud": ("cloud",)}
# Centre and radius of the circles that a cloud is made of.
_PUFFS = ((128, 88, 26), (160, 72, 36), (198, 84, 28), (176, 96, 24), (146, 98, 22))


def draw(weather: str) -> bytes:
    """Draws the weather.

    Args:
        weather: What it is like, in words.

    Returns:
        A PNG of ``WIDTH`` to ``HEIGHT`` pixels.
    """
    said = weather.lower()
    sky = next((name for name, words in _WORDS.items() if any(w in said for w in words)), "cloud")
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"".join(_rows(sky)), 9)
    chunks = ((b"IHDR", header), (b"IDAT", pixels), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _rows(sky: str) -> Iterator[bytes]:
    for y in range(HEIGHT):
        # Each row begins with its filter: none.
        yield b"\0" + bytes(part for x in range(WIDTH) for part in _pixel(sky, x, y))


def _pixel(sky: str, x: int, y: int) -> Colour:
    if y > 158 + ((x - 90) / 30) ** 2 * 1.2 or y > 166 + ((x - 250) / 34) ** 2 * 1.4:
        return _SNOWY if sky == "snow" else _HILL
    if sky != "sun" and any(_within(x, y, *puff) for puff in _PUFFS):
        return _CLOUD if sky in ("cloud", "snow") else _DARK_CLOUD
    if sky in ("sun", "cloud") and _within(x, y, 222 if sky == "cloud" else 160, 62, 34):
        return _SUN
    if sky == "rain" and y > 108 and (x + y // 2) % 22 < 3 and (y + x // 22 * 7) % 24 < 12:
        return _DROP
    if sky == "snow" and y > 108 and (x % 26 - 13) ** 2 + ((y + x // 26 * 9) % 26 - 13) ** 2 < 8:
        return _SNOWY
    top, bottom = _SKIES[sky]
    share = y / HEIGHT
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(top, bottom, strict=True))
    return red, green, blue


def _within(x: int, y: int, centre_x: int, centre_y: int, radius: int) -> bool:
    return (x - centre_x) ** 2 + (y - centre_y) ** 2 <= radius**2


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
