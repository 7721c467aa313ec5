"""Masking of sensitive text in strings and in payloads, which stay valid for the next model call.

A mask may name the kind of what it replaces: ``[REDACTED]``, ``[REDACTED:EMAIL]``. Everything
here is a function of its arguments and needs neither a database nor an SDK.
"""

from __future__ import annotations

from .blanking import redact_message, redact_block, redact_spans
from .finders import DetectorFinder, Finder, Match, TextFinder, PatternFinder, find_matches
from .following import reapply_redaction, searchable_texts
from .ids import safe_id, replacement_ids
from .leftovers import masked_texts, mask_texts, mask_texts_in_place
from .masks import MASK_PATTERN, mask
from .trees import MaskedMatch, mask_text, mask_tree

__all__ = [
    "MASK_PATTERN",
    "DetectorFinder",
    "Finder",
    "Match",
    "MaskedMatch",
    "TextFinder",
    "PatternFinder",
    "redact_message",
    "redact_block",
    "redact_spans",
    "reapply_redaction",
    "safe_id",
    "mask",
    "mask_text",
    "mask_tree",
    "replacement_ids",
    "find_matches",
    "masked_texts",
    "mask_texts",
    "mask_texts_in_place",
    "searchable_texts",
]
