"""Format of masks.

The text inside of a mask is not searched again, and a user can write
``[REDACTED:4111111111111111]``. Therefore only masks of known kinds count as masks.
"""

from __future__ import annotations

import functools
import re

from django_agent_sessions.conf import get_settings
from django_agent_sessions.content import detectors

MASK_PATTERN = re.compile(r"\[REDACTED(?::[A-Z0-9_]+)?\]")
"""The format of a mask. A model may write one too: only a row's ``redacted_at`` is proof."""

_BUILT_IN_KINDS = frozenset(
    {
        "IMAGE", "DOCUMENT", "VIDEO", "AUDIO", "REASONING",
        "EMAIL", "CARD", "IBAN", "US_SSN", "PHONE", "IP", "PRIVATE_KEY", "JWT", "API_KEY",
        "PRESIDIO", "PERSON", "LOCATION", "DATE_TIME", "NRP", "URL", "ORGANIZATION", "CRYPTO",
        "MEDICAL_LICENSE", "US_BANK_NUMBER", "US_DRIVER_LICENSE", "US_ITIN", "US_PASSPORT",
    }
)  # fmt: skip


def mask(kind: str = "") -> str:
    """Return the mask for a kind, or the general mask."""
    return f"[REDACTED:{kind}]" if kind else "[REDACTED]"


def mask_spans(text: str) -> list[tuple[int, int]]:
    """Return the positions of the masks of known kinds in a text."""
    if "[REDACTED" not in text:
        return []
    return [match.span() for match in MASK_PATTERN.finditer(text) if _is_known(match[0])]


def is_mask(text: str) -> bool:
    """Return whether a text consists of one mask of a known kind."""
    return MASK_PATTERN.fullmatch(text) is not None and _is_known(text)


def _is_known(text: str) -> bool:
    kind = text[len("[REDACTED:") : -1]
    return (
        not kind
        or kind in _BUILT_IN_KINDS
        or kind in _configured_kinds(tuple(get_settings().DETECTORS))
    )


@functools.lru_cache(maxsize=8)
def _configured_kinds(paths: tuple[str, ...]) -> frozenset[str]:
    # Only the detectors' names: a kind that a detector computes may contain what it found.
    return frozenset(name.upper() for name in detectors.names()) if paths else frozenset()
