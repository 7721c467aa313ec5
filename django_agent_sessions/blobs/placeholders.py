"""Placeholder texts for lost binaries, so that the conversation can continue."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django_agent_sessions.content import dialects
from django_agent_sessions.content.blob_refs import PLACEHOLDER_IMAGE, BlobRef, references
from django_agent_sessions.content.paths import Path, has_path, value_at

PLACEHOLDER = "[The attachment that was here is not available any more.]"
"""The text that the model receives."""


def with_placeholders(dialect: str, payload: Any, lost: Collection[str]) -> Any:
    """Replace the blocks of a message whose binaries are lost."""
    for path, reference in list(references(payload)):
        if reference.sha256 not in lost:
            continue
        depth = max((index for index, key in enumerate(path) if isinstance(key, int)), default=None)
        if depth is None:
            payload = _replace(payload, path, _field(reference))
        else:
            block_path = path[: depth + 1]
            # An earlier replacement may have removed it.
            block = value_at(payload, block_path) if has_path(payload, block_path) else None
            placeholder = dialects.get(dialect).placeholder(block, PLACEHOLDER)
            payload = _replace(payload, block_path, placeholder)
    return payload


def _field(reference: BlobRef) -> str:
    # Fields that require an image receive a one-pixel image.
    if reference.prefix == "":
        return PLACEHOLDER_IMAGE.partition(",")[2]
    return PLACEHOLDER_IMAGE if (reference.prefix or "").startswith("data:image/") else PLACEHOLDER


def _replace(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return new
    if isinstance(value, dict):
        return {k: _replace(v, path[1:], new) if k == path[0] else v for k, v in value.items()}
    if isinstance(value, list):
        return [_replace(v, path[1:], new) if i == path[0] else v for i, v in enumerate(value)]
    # An earlier replacement removed it.
    return value
