"""Bytes that are no clean text, looked at as several encodings would read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .finders import Finder, Found, Literal, places


def places_in_bytes(data: bytes, finders: Sequence[Finder]) -> list[Found]:
    """Finds places in bytes."""
    named = [finder for finder in finders if isinstance(finder, Literal)]
    # What is no text is set in no letters.
    spelled: list[Finder] = [
        finder.spelled if isinstance(finder, Literal) else finder for finder in finders
    ]
    found = places(data.decode("latin-1"), spelled)
    if named:
        found = sorted([*found, *_elsewhere(data, named)])
    merged: list[Found] = []
    for place in found:
        if merged and place.start < merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(merged[-1].end, place.end))
        else:
            merged.append(place)
    return merged


def _elsewhere(data: bytes, named: Sequence[Literal]) -> Iterator[Found]:
    if not all(finder.ascii for finder in named):
        yield from _read(data, "utf-8", "surrogateescape", 0, named)
    # Nobody knows where such a text begins: at an even byte or at an odd one.
    for offset in (0, 1):
        for encoding in ("utf-16-le", "utf-16-be"):
            yield from _read(data, encoding, "surrogatepass", offset, named)


def _read(
    data: bytes, encoding: str, errors: str, offset: int, finders: Sequence[Literal]
) -> Iterator[Found]:
    if encoding != "utf-8":
        data = data[offset : len(data) - (len(data) - offset) % 2]
    try:
        text = data.decode(encoding, errors)
    except UnicodeDecodeError:
        # An unpaired half at the very end.
        text = data[:-2].decode(encoding, errors)
    at, done = offset, 0
    for place in places(text, [finder.spelled for finder in finders]):
        start = at + len(text[done : place.start].encode(encoding, errors))
        at = start + len(text[place.start : place.end].encode(encoding, errors))
        done = place.end
        yield Found(start, at, place.kind)
