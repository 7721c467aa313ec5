"""Prepare values for their columns, and mask them as ``REDACT_ON_WRITE`` configures."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from django_agent_sessions import conf
from django_agent_sessions.conf import AgentSessionsSettings
from django_agent_sessions.content import masking
from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.exceptions import PayloadError

from ._statement_sizes import check_statement_size

_TITLE_LENGTH = 255


def mask_on_write(
    value: Any, *, free: bool = False, settings: AgentSessionsSettings | None = None
) -> Any:
    """Mask what the detectors of ``REDACT_ON_WRITE`` find."""
    settings = settings or conf.get_settings()
    if not settings.REDACT_ON_WRITE:
        return value
    finders = _finders(tuple(settings.REDACT_ON_WRITE), tuple(settings.DETECTORS))
    return masking.mask_tree(value, finders, free=free)[0]


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


@functools.lru_cache(maxsize=8)
def _finders(names: tuple[str, ...], configured: tuple[str, ...]) -> Sequence[masking.Finder]:
    # Imported here: few projects configure detectors, and compiling their patterns is slow.
    from django_agent_sessions.content import detectors

    return [masking.DetectorFinder(detectors.load(names))]
