"""Masking of sensitive text in strings and in payloads, which stay valid for the next model call.

A mask may name the kind of what it replaces: ``[REDACTED]``, ``[REDACTED:EMAIL]``. Everything
here is a function of its arguments and needs neither a database nor an SDK.
"""

from __future__ import annotations

from .blanking import blank, blank_block, blank_spans
from .finders import Detecting, Finder, Found, Literal, Pattern, places
from .following import follow, significant
from .ids import kept_id, masked_ids
from .leftovers import removed, scrub, scrub_in_place
from .masks import MASK_PATTERN, mask
from .trees import Hit, mask_text, mask_tree

__all__ = [
    "MASK_PATTERN",
    "Detecting",
    "Finder",
    "Found",
    "Hit",
    "Literal",
    "Pattern",
    "blank",
    "blank_block",
    "blank_spans",
    "follow",
    "kept_id",
    "mask",
    "mask_text",
    "mask_tree",
    "masked_ids",
    "places",
    "removed",
    "scrub",
    "scrub_in_place",
    "significant",
]
