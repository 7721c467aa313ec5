"""References to large binaries that stand in payloads in their place. Pure values."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQAB"
    "h6FO1AAAAABJRU5ErkJggg=="
)
"""One transparent pixel, where only a picture may stand."""

DATA_URL = re.compile(r"data:[^,]{0,400};base64,", re.IGNORECASE)
"""How a binary begins that stands as base64 in a text of its own."""


@dataclass(frozen=True, slots=True)
class BlobRef:
    """A large binary of a message that is kept in a storage and not in the payload."""

    sha256: str
    size: int
    media_type: str = ""
    prefix: str | None = None

    def restored(self, data: bytes) -> bytes | str:
        """Gives what stood in the payload."""
        if self.prefix is None:
            return data
        return self.prefix + base64.b64encode(data).decode("ascii")


Path = tuple[str | int, ...]
"""From a payload to a value in it: keys of dicts, positions in lists."""


def value_at(payload: Any, path: Path) -> Any:
    """Follows a path."""
    for key in path:
        if isinstance(payload, dict):
            fits = isinstance(key, str)
        elif isinstance(payload, list | tuple):
            fits = type(key) is int and 0 <= key < len(payload)
        else:
            fits = False
        if not fits:
            raise LookupError("the path leads nowhere")
        payload = payload[key]
    return payload


def references(value: Any, path: Path = ()) -> Iterator[tuple[Path, BlobRef]]:
    """Finds the references in a payload."""
    if isinstance(value, BlobRef):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            if type(item) not in _PLAIN:
                yield from references(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if type(item) not in _PLAIN:
                yield from references(item, (*path, index))


def resolved(value: Any, contents: Mapping[str, bytes]) -> Any:
    """Puts binaries back in the place of their references."""
    if isinstance(value, BlobRef):
        data = contents.get(value.sha256)
        return value if data is None else value.restored(data)
    if isinstance(value, dict):
        return {
            key: item if type(item) in _PLAIN else resolved(item, contents)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [item if type(item) in _PLAIN else resolved(item, contents) for item in value]
    return value


_PLAIN = frozenset({str, int, float, bool, bytes, type(None)})
