"""Search in bytes that are not valid UTF-8, decoded with several encodings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .finders import Finder, Match, TextFinder, find_matches


def find_matches_in_bytes(data: bytes, finders: Sequence[Finder]) -> list[Match]:
    literals = [finder for finder in finders if isinstance(finder, TextFinder)]
    # Typographic variants of characters are not searched in bytes.
    spelled: list[Finder] = [
        finder.exact_finder if isinstance(finder, TextFinder) else finder for finder in finders
    ]
    matches = find_matches(data.decode("latin-1"), spelled)
    if literals:
        matches = sorted([*matches, *_matches_in_encodings(data, literals)])
    merged: list[Match] = []
    for match in matches:
        if merged and match.start < merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(merged[-1].end, match.end))
        else:
            merged.append(match)
    return merged


def _matches_in_encodings(data: bytes, literals: Sequence[TextFinder]) -> Iterator[Match]:
    if not all(finder.ascii for finder in literals):
        yield from _matches_in_encoding(data, "utf-8", "surrogateescape", 0, literals)
    # UTF-16 text may begin at an even or at an odd byte.
    for offset in (0, 1):
        for encoding in ("utf-16-le", "utf-16-be"):
            yield from _matches_in_encoding(data, encoding, "surrogatepass", offset, literals)


def _matches_in_encoding(
    data: bytes, encoding: str, errors: str, offset: int, finders: Sequence[TextFinder]
) -> Iterator[Match]:
    if encoding != "utf-8":
        data = data[offset : len(data) - (len(data) - offset) % 2]
    try:
        text = data.decode(encoding, errors)
    except UnicodeDecodeError:
        # An unpaired surrogate at the end.
        text = data[:-2].decode(encoding, errors)
    position, done = offset, 0
    for match in find_matches(text, [finder.exact_finder for finder in finders]):
        start = position + len(text[done : match.start].encode(encoding, errors))
        position = start + len(text[match.start : match.end].encode(encoding, errors))
        done = match.end
        yield Match(start, position, match.kind)
