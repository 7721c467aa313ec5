"""What a mask looks like, and which ones count.

Anybody can write ``[REDACTED:4111111111111111]``. What stands in a mask is not looked at again,
so only masks of a kind that we know are masks; all others are content.
"""

from __future__ import annotations

import functools
import re

from django_agent_sessions import detectors
from django_agent_sessions.conf import get_settings

MASK_PATTERN = re.compile(r"\[REDACTED(?::[A-Z0-9_]+)?\]")
"""What a mask looks like. A model may write one too: only a row's ``redacted_at`` proves it."""

_OWN = frozenset(
    {
        "IMAGE", "DOCUMENT", "VIDEO", "AUDIO", "REASONING",
        "EMAIL", "CARD", "IBAN", "US_SSN", "PHONE", "IP", "PRIVATE_KEY", "JWT", "API_KEY",
        "PRESIDIO", "PERSON", "LOCATION", "DATE_TIME", "NRP", "URL", "ORGANIZATION", "CRYPTO",
        "MEDICAL_LICENSE", "US_BANK_NUMBER", "US_DRIVER_LICENSE", "US_ITIN", "US_PASSPORT",
    }
)  # fmt: skip


def mask(kind: str = "") -> str:
    """Makes a mask."""
    return f"[REDACTED:{kind}]" if kind else "[REDACTED]"


def spans(text: str) -> list[tuple[int, int]]:
    """Finds the masks in a text, of known kinds only."""
    if "[REDACTED" not in text:
        return []
    return [match.span() for match in MASK_PATTERN.finditer(text) if _is_known(match[0])]


def is_mask(text: str) -> bool:
    """Tells whether a text is a mask of a known kind, and nothing else."""
    return MASK_PATTERN.fullmatch(text) is not None and _is_known(text)


def _is_known(found: str) -> bool:
    kind = found[len("[REDACTED:") : -1]
    return not kind or kind in _OWN or kind in _configured(tuple(get_settings().DETECTORS))


@functools.lru_cache(maxsize=8)
def _configured(paths: tuple[str, ...]) -> frozenset[str]:
    # A kind that such a detector makes up itself is looked at again: it may be what it found.
    return frozenset(name.upper() for name in detectors.names()) if paths else frozenset()
