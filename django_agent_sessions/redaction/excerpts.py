"""What a redaction would take away, for whoever asks before it is made."""

from __future__ import annotations

import json
from typing import Any

from django_agent_sessions import masking, transcripts
from django_agent_sessions.fields import CorruptPayload
from django_agent_sessions.references import value_at
from django_agent_sessions.transcripts import Part
from django_agent_sessions.transcripts.blocks import blocks

from .plan import Cut, Spans
from .scopes import WholeMessage

_AROUND = 40
"""Characters on each side of a piece of a text; as many as around what was looked for."""

_LONGEST = 2000


def excerpts(step: Cut, payload: Any, dialect: str) -> list[tuple[str, str]]:
    """Tells what goes from a message."""
    if isinstance(step, Spans) and not isinstance(payload, CorruptPayload):
        return _pieces(step, payload)
    count = len(step.parts) if isinstance(step, Spans) else 1
    if isinstance(payload, CorruptPayload):
        # Nothing has a place in it: all of it goes.
        said = payload.text
    elif isinstance(step, WholeMessage):
        said = "\n".join(filter(None, map(_said, transcripts.parts(dialect, payload))))
    else:
        path = step.path
        said = next(
            (
                "\n".join(filter(None, map(_said, found.parts)))
                for block in blocks(dialect, payload)
                for found in (block, *block.inner)
                if found.path == path
            ),
            "",
        )
    return [(said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…", masking.mask())] * count


def _pieces(step: Spans, payload: Any) -> list[tuple[str, str]]:
    text = value_at(payload, step.path)
    if isinstance(text, dict):
        # A block is as good a name of its text.
        text = text["text"]
    return [
        (
            text[max(0, start - _AROUND) : end + _AROUND],
            masking.mask().join((text[max(0, start - _AROUND) : start], text[end : end + _AROUND])),
        )
        for start, end in step.parts
    ]


def _said(part: Part) -> str:
    if part.text or part.data is None:
        return part.text or part.name or part.media_type
    try:
        return json.dumps(part.data, ensure_ascii=False, default=lambda value: "…")
    except (RecursionError, TypeError, ValueError):
        # Foreign data, which goes all the same.
        return part.name
