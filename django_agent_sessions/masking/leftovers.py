"""What somebody still has in memory of what was redacted, and taking it away there too."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from .encoded import after_data_url, container, from_base64
from .finders import Literal, may_hold
from .masks import MASK_PATTERN
from .masks import spans as masks_in
from .trees import mask_tree

_SHORTEST = 2
_CANDIDATES = 12
# Two keys that became alike are told apart by a number.
_NUMBERED = re.compile(r" \(\d+\)\Z")


def removed(before: Any, after: Any) -> set[str]:
    """Finds out what a redaction took away."""
    return {text for text in _removed(before, after) if len(text.strip()) >= _SHORTEST}


def scrub(value: Any, secrets: Collection[str], *, free: bool = True) -> Any:
    """Masks texts wherever they stand."""
    finders = [
        Literal(secret)
        for secret in secrets
        if secret.strip() and (not isinstance(value, str) or may_hold(value, secret))
    ]
    return mask_tree(value, finders, free=free)[0] if finders else value


def scrub_in_place(value: Any, secrets: Collection[str], *, free: bool = False) -> bool:
    """Masks texts in a dict or list that somebody else holds."""
    clean = scrub(value, secrets, free=free)
    if clean is value:
        return False
    if isinstance(value, dict):
        value.clear()
        value.update(clean)
    else:
        value[:] = clean
    return True


def _removed(before: Any, after: Any) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict) and _same_keys(before, after):
        for (key, item), (now_key, now) in zip(before.items(), after.items(), strict=True):
            if key != now_key:
                yield from _gaps(key, _NUMBERED.sub("", now_key))
            yield from _removed(item, now)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for item, now in zip(before, after, strict=True):
            yield from _removed(item, now)
    elif isinstance(before, str) and isinstance(after, str):
        if before != after:
            yield from _removed_from_text(before, after)
    elif isinstance(before, bytes) and isinstance(after, bytes):
        if before != after:
            yield from _removed_from_text(_readable(before), _readable(after))
    elif _holds_mask(after) and not _holds_mask(before):
        # A block was replaced by another: all that it said is gone.
        yield from _texts(before)


def _same_keys(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether the keys are the same, or masked: what is masked keeps its order."""
    return len(before) == len(after) and all(
        key == now or MASK_PATTERN.search(str(now)) for key, now in zip(before, after, strict=True)
    )


def _removed_from_text(before: str, after: str) -> Iterator[str]:
    start = after_data_url(after)
    inside, now = from_base64(before[start:]), from_base64(after[start:])
    if inside is not None and now is not None and MASK_PATTERN.search(_readable(now)):
        yield from _removed(inside, now)
        return
    if not MASK_PATTERN.search(after):
        return
    parsed, masked = container(before), container(after)
    if isinstance(parsed, dict | list) and type(parsed) is type(masked) and parsed != masked:
        # It may have been said anew, with other spaces.
        yield from _removed(parsed, masked)
    else:
        yield from _gaps(before, after)


def _readable(data: bytes) -> str:
    return data.decode(errors="replace")


def _gaps(before: str, after: str) -> Iterator[str]:
    """Aligns the unmasked pieces of a text with the original; what is between them was masked."""
    first, *inner, last = MASK_PATTERN.split(after)
    start, end = len(first), len(before) - len(last)
    if not (start <= end and before.startswith(first) and before.endswith(last)):
        # It was not only masked but said anew: then all of it was taken away.
        yield before
        return
    # Between two masks side by side nothing tells where one ends.
    inner = [piece for piece in inner if piece]
    earliest, latest = _earliest(before, inner, start, end), _latest(before, inner, start, end)
    if earliest is None or latest is None:
        yield before
        return
    if earliest != latest:
        # A space between two masks may have been any of several: then all that may be is.
        yield before[start:end]
    begins = [[start], *_places(before, inner, earliest, latest, behind=True)]
    ends = [*_places(before, inner, earliest, latest, behind=False), [end]]
    for some, others in zip(begins, ends, strict=True):
        yield from (before[one:other] for one in some for other in others if one < other)


def _earliest(text: str, pieces: Sequence[str], start: int, end: int) -> list[int] | None:
    found: list[int] = []
    for piece in pieces:
        at = text.find(piece, start, end)
        if at < 0:
            return None
        found.append(at)
        start = at + len(piece)
    return found


def _latest(text: str, pieces: Sequence[str], start: int, end: int) -> list[int] | None:
    found: list[int] = []
    for piece in reversed(pieces):
        end = text.rfind(piece, start, end)
        if end < 0:
            return None
        found.append(end)
    return found[::-1]


def _places(
    text: str, pieces: Sequence[str], earliest: Sequence[int], latest: Sequence[int], behind: bool
) -> Iterator[list[int]]:
    """Where each piece may have stood; of very many places, the first ones and the last one."""
    for piece, low, high in zip(pieces, earliest, latest, strict=True):
        found = [low]
        while len(found) < _CANDIDATES and found[-1] < high:
            found.append(text.find(piece, found[-1] + 1, high + len(piece)))
        yield [at + len(piece) * behind for at in dict.fromkeys([*found, high])]


def _holds_mask(value: Any) -> bool:
    return any(masks_in(text) for text in _texts(value))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield repr(value)
    elif isinstance(value, bytes):
        yield _readable(value)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
