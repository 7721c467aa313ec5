"""The title and the metadata of a session, as its columns can hold them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.content.masking.on_write import mask_on_write
from django_agent_sessions.exceptions import PayloadError
from django_agent_sessions.sql.statement_sizes import check_statement_size

_TITLE_LENGTH = 255


def prepare_title(title: str) -> str:
    """Return a title that fits its column; raise PayloadError for what is no string."""
    if not isinstance(title, str):
        raise PayloadError(f"a title is a str, not {type(title).__name__}; '' means none")
    return str(mask_on_write(displayable(title), free=True))[:_TITLE_LENGTH]


def prepare_metadata(metadata: Mapping[str, Any], using: str) -> dict[str, Any]:
    """Return masked metadata; raise PayloadError for values that the database would reject."""
    check_is_mapping(metadata)
    cleaned = dict(mask_on_write(dict(metadata), free=True))
    try:
        text = json.dumps(cleaned, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise PayloadError("the metadata is not JSON") from None
    if "\\u0000" in text or "\\ud" in text:
        _refuse_unstorable(cleaned)
    check_statement_size(using, [text])
    return cleaned


def check_is_mapping(metadata: Any) -> None:
    """Raise PayloadError for metadata that is no mapping."""
    if not isinstance(metadata, Mapping):
        raise PayloadError(f"metadata is a dict, not {type(metadata).__name__}; {{}} means none")


def _refuse_unstorable(value: Any) -> None:
    if isinstance(value, str):
        if displayable(value) != value:
            raise PayloadError("the metadata contains NUL or a lone surrogate; remove it")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _refuse_unstorable(key)
            _refuse_unstorable(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _refuse_unstorable(item)
