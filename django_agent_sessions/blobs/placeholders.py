"""A text in the place of a block whose binary is gone, so that the conversation goes on."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

from django_agent_sessions.references import PIXEL, BlobRef, Path, references
from django_agent_sessions.transcripts import STRANDS

PLACEHOLDER = "[The attachment that was here is not available any more.]"
"""What a model reads instead."""


def with_placeholders(dialect: str, payload: Any, lost: Collection[str]) -> Any:
    """Replaces the blocks of a message that hold binaries which are gone."""
    for path, reference in list(references(payload)):
        if reference.sha256 not in lost:
            continue
        depth = max((at for at, key in enumerate(path) if isinstance(key, int)), default=None)
        if depth is None:
            payload = _replaced(payload, path, _field(reference))
        else:
            place = path[: depth + 1]
            payload = _replaced(payload, place, _block(dialect, _at(payload, place)))
    return payload


def _field(reference: BlobRef) -> str:
    # Where only an image may stand, it is the smallest one.
    if reference.prefix == "":
        return PIXEL.partition(",")[2]
    return PIXEL if (reference.prefix or "").startswith("data:image/") else PLACEHOLDER


def _block(dialect: str, block: Any) -> dict[str, str]:
    if dialect == STRANDS:
        return {"text": PLACEHOLDER}
    kind = block.get("type") if isinstance(block, dict) else None
    responses = isinstance(kind, str) and kind.startswith("input_") and kind != "input_audio"
    return {"type": "input_text" if responses else "text", "text": PLACEHOLDER}


def _at(value: Any, path: Path) -> Any:
    for key in path:
        # An earlier replacement may have taken it away.
        value = cast("Any", value)[key] if isinstance(value, dict | list) else None
    return value


def _replaced(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return new
    if isinstance(value, dict):
        return {k: _replaced(v, path[1:], new) if k == path[0] else v for k, v in value.items()}
    if isinstance(value, list):
        return [_replaced(v, path[1:], new) if at == path[0] else v for at, v in enumerate(value)]
    # An earlier replacement took it away.
    return value
