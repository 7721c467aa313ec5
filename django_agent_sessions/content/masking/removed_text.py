"""What a redaction removed, and removing it from copies in memory."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from django_agent_sessions.content.exact_json import key_text

from .encodings import base64_start, decode_base64, parse_embedded_json
from .masks import MASK_PATTERN, mask_spans
from .payloads import mask_tree
from .text_finder import TextFinder, WordFinder

_SHORTEST = 2
_SHORTEST_SEARCHED = 6
_CANDIDATES = 12
# Keys whose masks are equal are distinguished by a number.
_NUMBERED = re.compile(r" \(\d+\)\Z")


def masked_texts(before: Any, after: Any) -> set[str]:
    """Return the texts that a redaction masked, given the payload before and after it."""
    return {text for text in _removed_texts(before, after) if len(text.strip()) >= _SHORTEST}


def mask_texts(
    value: Any, secrets: Collection[str], *, free: bool = True, words: bool = False
) -> Any:
    """Return a value with texts masked wherever they occur, or only as whole ``words``."""
    finder = WordFinder if words else TextFinder
    finders = [finder(secret) for secret in secrets if secret.strip()]
    return mask_tree(value, finders, free=free)[0] if finders else value


def mask_texts_in_place(value: Any, secrets: Collection[str], *, free: bool = False) -> bool:
    """Mask texts in a dict or list in place; return whether it changed."""
    masked_value = mask_texts(value, secrets, free=free)
    if masked_value is value:
        return False
    if isinstance(value, dict):
        value.clear()
        value.update(masked_value)
    else:
        value[:] = masked_value
    return True


def reapply_redaction(live: Any, before: Any, after: Any) -> Any:
    """Apply the difference of ``before`` and ``after`` to a copy that has changed since."""
    if before == after:
        return live
    if live == before:
        return after
    if isinstance(live, dict) and isinstance(before, dict) and isinstance(after, dict):
        # A redacted key has a new name at the same position.
        if len(before) != len(after):
            return live
        names = dict(zip(before, after, strict=True))
        return {
            names.get(key, key): reapply_redaction(item, before[key], after[names[key]])
            if key in before
            else item
            for key, item in live.items()
        }
    if isinstance(live, list) and isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            return live
        pairs = zip(before, after, strict=True)
        return [
            reapply_redaction(item, *pair) if pair is not None else item
            for item, pair in zip(live, [*pairs, *[None] * len(live)], strict=False)
        ]
    return live


def searchable_texts(secrets: Iterable[str]) -> set[str]:
    """Return the texts that are long enough to be searched everywhere.

    A short text such as "10" or "yes" also occurs in unrelated content.
    """
    return {secret for secret in secrets if len(secret.strip()) >= _SHORTEST_SEARCHED}


def _removed_texts(before: Any, after: Any) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict) and _same_keys(before, after):
        for (given, item), (new_key, new) in zip(before.items(), after.items(), strict=True):
            # A number that is a key is stored as text.
            key = str(key_text(given))
            if key != new_key:
                yield from _masked_parts(key, _NUMBERED.sub("", new_key))
            yield from _removed_texts(item, new)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for item, new in zip(before, after, strict=True):
            yield from _removed_texts(item, new)
    elif isinstance(before, str) and isinstance(after, str):
        if before != after:
            yield from _removed_from_text(before, after)
    elif isinstance(before, bytes) and isinstance(after, bytes):
        if before != after:
            yield from _removed_from_text(_decode(before), _decode(after))
    elif _contains_mask(after) and not _contains_mask(before):
        # A block was replaced by another: all of its texts were removed.
        yield from _texts(before)


def _same_keys(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Return whether the keys are the same or masked; masking keeps their order."""
    return len(before) == len(after) and all(
        key_text(key) == new or MASK_PATTERN.search(str(new))
        for key, new in zip(before, after, strict=True)
    )


def _removed_from_text(before: str, after: str) -> Iterator[str]:
    start = base64_start(after)
    old_data, new = decode_base64(before[start:]), decode_base64(after[start:])
    if old_data is not None and new is not None and MASK_PATTERN.search(_decode(new)):
        yield from _removed_texts(old_data, new)
        return
    if not MASK_PATTERN.search(after):
        return
    parsed, new_parsed = parse_embedded_json(before), parse_embedded_json(after)
    if (
        isinstance(parsed, dict | list)
        and type(parsed) is type(new_parsed)
        and parsed != new_parsed
    ):
        # The JSON may have been serialized again, with other white space.
        yield from _removed_texts(parsed, new_parsed)
    else:
        yield from _masked_parts(before, after)


def _decode(data: bytes) -> str:
    return data.decode(errors="replace")


def _masked_parts(before: str, after: str) -> Iterator[str]:
    """Align the unmasked pieces of a text with the original; yield the texts between them."""
    first, *inner, last = MASK_PATTERN.split(after)
    start, end = len(first), len(before) - len(last)
    if not (start <= end and before.startswith(first) and before.endswith(last)):
        # The text was rewritten and not only masked: all of it was removed.
        yield before
        return
    # Two adjacent masks have no boundary in the original.
    inner = [piece for piece in inner if piece]
    earliest, latest = _earliest(before, inner, start, end), _latest(before, inner, start, end)
    if earliest is None or latest is None:
        yield before
        return
    if earliest != latest:
        # A piece such as a space may match at several positions: yield all candidates.
        yield before[start:end]
    begins = [[start], *_positions(before, inner, earliest, latest, at_end=True)]
    ends = [*_positions(before, inner, earliest, latest, at_end=False), [end]]
    for starts, stops in zip(begins, ends, strict=True):
        yield from (before[one:two] for one in starts for two in stops if one < two)


def _earliest(text: str, pieces: Sequence[str], start: int, end: int) -> list[int] | None:
    positions: list[int] = []
    for piece in pieces:
        position = text.find(piece, start, end)
        if position < 0:
            return None
        positions.append(position)
        start = position + len(piece)
    return positions


def _latest(text: str, pieces: Sequence[str], start: int, end: int) -> list[int] | None:
    positions: list[int] = []
    for piece in reversed(pieces):
        end = text.rfind(piece, start, end)
        if end < 0:
            return None
        positions.append(end)
    return positions[::-1]


def _positions(
    text: str, pieces: Sequence[str], earliest: Sequence[int], latest: Sequence[int], at_end: bool
) -> Iterator[list[int]]:
    """Yield the possible positions of each piece; of many, the first ones and the last one."""
    for piece, low, high in zip(pieces, earliest, latest, strict=True):
        positions = [low]
        while len(positions) < _CANDIDATES and positions[-1] < high:
            positions.append(text.find(piece, positions[-1] + 1, high + len(piece)))
        yield [position + len(piece) * at_end for position in dict.fromkeys([*positions, high])]


def _contains_mask(value: Any) -> bool:
    return any(mask_spans(text) for text in _texts(value))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield repr(value)
    elif isinstance(value, bytes):
        yield _decode(value)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
