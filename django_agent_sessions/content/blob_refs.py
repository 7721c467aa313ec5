"""References to large binaries, which replace them in payloads. Independent of Django."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .paths import Path

PLACEHOLDER_IMAGE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQAB"
    "h6FO1AAAAABJRU5ErkJggg=="
)
"""A transparent pixel: the placeholder where only an image is valid."""

DATA_URL_PREFIX = re.compile(r"data:[^,]{0,400};base64,", re.IGNORECASE)
"""The start of a text that is a binary in base64."""


@dataclass(frozen=True, slots=True)
class BlobRef:
    """A large binary of a message that is stored in a storage instead of the payload.

    ``media_type`` is detected from the first bytes; empty if unknown. ``prefix`` is None if the
    payload had ``bytes``; otherwise the payload had base64 text, and ``prefix`` is the text before
    it, such as ``"data:image/png;base64,"``.
    """

    sha256: str
    size: int
    media_type: str = ""
    prefix: str | None = None

    def restored(self, data: bytes) -> bytes | str:
        """Return the value that the reference replaced."""
        if self.prefix is None:
            return data
        return self.prefix + base64.b64encode(data).decode("ascii")


def references(value: Any, path: Path = ()) -> Iterator[tuple[Path, BlobRef]]:
    """Iterate over the references in a payload and their paths."""
    if isinstance(value, BlobRef):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            if type(item) not in _SCALAR_TYPES:
                yield from references(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if type(item) not in _SCALAR_TYPES:
                yield from references(item, (*path, index))


def resolve(value: Any, contents: Mapping[str, bytes]) -> Any:
    """Replace references by their binaries; those without content stay."""
    if isinstance(value, BlobRef):
        data = contents.get(value.sha256)
        return value if data is None else value.restored(data)
    if isinstance(value, dict):
        return {
            key: item if type(item) in _SCALAR_TYPES else resolve(item, contents)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [item if type(item) in _SCALAR_TYPES else resolve(item, contents) for item in value]
    return value


_SCALAR_TYPES = frozenset({str, int, float, bool, bytes, type(None)})
