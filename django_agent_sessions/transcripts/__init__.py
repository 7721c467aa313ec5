"""Reading what agent frameworks store, without them.

Every agent has a *dialect*, the message format of its framework. A reader turns a payload of that
dialect into neutral parts, which lists, search, pages and exports show; and, at write, into the
neutral columns beside the payload. Nothing is dropped: what a reader does not know is a part of
kind unknown that holds the raw value.

Only the standard library is imported here.
"""

from __future__ import annotations

from . import assistant_ui, openai, strands
from .formats import ASSISTANT_UI, OPENAI, STRANDS
from .parts import EMPTY_SUMMARY, Part, PartKind, Summary, unknown
from .text import TEXT_CAP, displayable

__all__ = [
    "ASSISTANT_UI",
    "OPENAI",
    "STRANDS",
    "TEXT_CAP",
    "Part",
    "PartKind",
    "Summary",
    "displayable",
    "parts",
    "summary",
]


def parts(dialect: str, payload: object) -> tuple[Part, ...]:
    """Reads a payload."""
    # A payload is foreign data; whatever it does to a reader, a page must still show it.
    try:
        if dialect == STRANDS:
            return strands.parts(payload)
        if dialect == OPENAI:
            return openai.parts(payload)
        if dialect == ASSISTANT_UI:
            return assistant_ui.parts(payload)
    except Exception:
        return (unknown(payload),)
    return (unknown(payload),)


def summary(dialect: str, payload: object) -> Summary:
    """Reads what the neutral columns hold of a payload.

    Args:
        dialect: ``STRANDS``, ``OPENAI`` or ``ASSISTANT_UI``.
        payload: The message or item, as the framework has it.

    Returns:
        The summary, each value fit for its column. This never raises, because a message must not
        be lost for the sake of its columns: an odd payload has empty ones.
    """
    try:
        if dialect == STRANDS:
            return strands.summary(payload)
        if dialect == OPENAI:
            return openai.summary(payload)
        if dialect == ASSISTANT_UI:
            return assistant_ui.summary(payload)
    except Exception:
        return EMPTY_SUMMARY
    return EMPTY_SUMMARY
