"""Making values fit for their columns, and masking them where ``REDACT_ON_WRITE`` asks for it."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from django_agent_sessions import conf, masking
from django_agent_sessions.conf import AgentSessionsSettings
from django_agent_sessions.exceptions import PayloadError
from django_agent_sessions.transcripts import displayable

from .statement_sizes import check_statement_size

_TITLE_LENGTH = 255


def clean(value: Any, *, free: bool = False, settings: AgentSessionsSettings | None = None) -> Any:
    """Masks what the detectors of ``REDACT_ON_WRITE`` find."""
    settings = settings or conf.get_settings()
    if not settings.REDACT_ON_WRITE:
        return value
    finders = _finders(tuple(settings.REDACT_ON_WRITE), tuple(settings.DETECTORS))
    return masking.mask_tree(value, finders, free=free)[0]


def cleaned_title(title: str) -> str:
    """Makes a title fit for its column."""
    return str(clean(displayable(title), free=True))[:_TITLE_LENGTH]


def cleaned_metadata(metadata: Mapping[str, Any], using: str) -> dict[str, Any]:
    """Refuses what the database would, before that aborts the caller's transaction."""
    cleaned = dict(clean(dict(metadata), free=True))
    try:
        text = json.dumps(cleaned, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise PayloadError("the metadata is not JSON") from None
    if "\\u0000" in text or "\\ud" in text:
        _refuse_unstorable(cleaned)
    check_statement_size(using, [text])
    return cleaned


def _refuse_unstorable(value: Any) -> None:
    if isinstance(value, str):
        if displayable(value) != value:
            raise PayloadError("the metadata holds NUL or a lone surrogate")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _refuse_unstorable(key)
            _refuse_unstorable(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _refuse_unstorable(item)


@functools.lru_cache(maxsize=8)
def _finders(names: tuple[str, ...], configured: tuple[str, ...]) -> Sequence[masking.Finder]:
    # Here, because few projects name any, and their patterns take a while to compile.
    from django_agent_sessions import detectors

    return [masking.Detecting(detectors.load(names))]
