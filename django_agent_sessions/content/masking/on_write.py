"""Mask what is written, as ``REDACT_ON_WRITE`` configures."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from django_agent_sessions.conf import AgentSessionsSettings, get_settings

from .finders import DetectorFinder, Finder
from .payloads import mask_tree


def mask_on_write(
    value: Any, *, free: bool = False, settings: AgentSessionsSettings | None = None
) -> Any:
    """Mask what the detectors of ``REDACT_ON_WRITE`` find."""
    settings = settings or get_settings()
    if not settings.REDACT_ON_WRITE:
        return value
    finders = _finders(tuple(settings.REDACT_ON_WRITE), tuple(settings.DETECTORS))
    return mask_tree(value, finders, free=free)[0]


@functools.lru_cache(maxsize=8)
def _finders(names: tuple[str, ...], configured: tuple[str, ...]) -> Sequence[Finder]:
    # Imported here: few projects configure detectors, and compiling their patterns is slow.
    from django_agent_sessions.content import detectors

    return [DetectorFinder(detectors.load(names))]
