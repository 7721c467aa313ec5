"""Texts before and after a redaction, for dry runs."""

from __future__ import annotations

import json
from typing import Any

from django_agent_sessions.content import dialects, masking
from django_agent_sessions.content.dialects import Part
from django_agent_sessions.content.paths import value_at
from django_agent_sessions.models.fields import CorruptPayload

from .scope_groups import PositionalScope, Spans
from .scopes import WholeMessage

_CONTEXT = 40
"""Characters on each side of a span; as many as around a match of a finder."""

MAX_EXCERPT = 2000
"""The most characters of a text that is redacted as a whole."""


def excerpts(step: PositionalScope, payload: Any, dialect: str) -> list[tuple[str, str]]:
    """Return pairs of the text before and after a step."""
    if isinstance(step, Spans) and not isinstance(payload, CorruptPayload):
        return _span_excerpts(step, payload)
    count = len(step.parts) if isinstance(step, Spans) else 1
    if isinstance(payload, CorruptPayload):
        # A corrupt payload has no paths and is redacted as a whole.
        text = payload.text
    elif isinstance(step, WholeMessage):
        text = "\n".join(filter(None, map(_part_text, dialects.get(dialect).parts(payload))))
    else:
        path = step.path
        text = next(
            (
                "\n".join(filter(None, map(_part_text, candidate.parts)))
                for block in dialects.get(dialect).blocks(payload)
                for candidate in (block, *block.inner)
                if candidate.path == path
            ),
            "",
        )
    return [
        (text if len(text) <= MAX_EXCERPT else f"{text[:MAX_EXCERPT]}…", masking.mask())
    ] * count


def _span_excerpts(step: Spans, payload: Any) -> list[tuple[str, str]]:
    text = value_at(payload, step.path)
    if isinstance(text, dict):
        # The path of a block stands for its text.
        text = text["text"]
    return [
        (
            text[max(0, start - _CONTEXT) : end + _CONTEXT],
            masking.mask().join(
                (text[max(0, start - _CONTEXT) : start], text[end : end + _CONTEXT])
            ),
        )
        for start, end in step.parts
    ]


def _part_text(part: Part) -> str:
    if part.text or part.data is None:
        return part.text or part.name or part.media_type
    try:
        return json.dumps(part.data, ensure_ascii=False, default=lambda value: "…")
    except (RecursionError, TypeError, ValueError):
        # Untrusted data that cannot be shown is redacted nevertheless.
        return part.name
