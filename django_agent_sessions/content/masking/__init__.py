"""Masking of sensitive text in strings and in payloads, which stay valid for the next model call.

A mask may name the kind of what it replaces: ``[REDACTED]``, ``[REDACTED:EMAIL]``. Everything
here is a function of its arguments and needs neither a database nor an SDK.
"""

from __future__ import annotations

from django_agent_sessions.content.dialects.redaction import mask

from .finders import (
    DetectorFinder,
    Finder,
    Finders,
    PatternFinder,
    find_matches,
)
from .masks import MASK_PATTERN, replacement_ids, safe_id
from .message_redaction import redact_block, redact_message, redact_spans
from .payloads import MAX_LISTED_MATCHES, MaskedMatch, MaskedMatches, mask_text, mask_tree
from .removed_text import (
    mask_texts,
    mask_texts_in_place,
    masked_texts,
    reapply_redaction,
    searchable_texts,
)
from .text_finder import Match, TextFinder

__all__ = [
    "MASK_PATTERN",
    "MAX_LISTED_MATCHES",
    "DetectorFinder",
    "Finder",
    "Finders",
    "MaskedMatch",
    "MaskedMatches",
    "Match",
    "PatternFinder",
    "TextFinder",
    "find_matches",
    "mask",
    "mask_text",
    "mask_texts",
    "mask_texts_in_place",
    "mask_tree",
    "masked_texts",
    "reapply_redaction",
    "redact_block",
    "redact_message",
    "redact_spans",
    "replacement_ids",
    "safe_id",
    "searchable_texts",
]
