"""Conversion of the messages of agent frameworks to neutral parts and columns.

Each agent has a *dialect*, the message format of its framework. Lists, search, pages and exports
show the neutral parts of a payload; its neutral columns are computed when it is written. An
unknown value becomes a part of kind unknown with the raw value, so that nothing is lost.

This package imports neither a framework nor Django.
"""

from __future__ import annotations

from . import assistant_ui, openai, strands
from .parts import EMPTY_SUMMARY, Part, PartKind, Summary, unknown_part
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

STRANDS = "strands"
"""Messages of Strands Agents, in the format of Amazon Bedrock's Converse API."""

OPENAI = "openai"
"""Items of OpenAI's Responses API, and messages of its chat API."""

ASSISTANT_UI = "assistant-ui"
"""Messages that a browser stored with assistant-ui's client; the server did not create them."""


def parts(dialect: str, payload: object) -> tuple[Part, ...]:
    """Return the neutral parts of a payload."""
    # A payload is untrusted: if the conversion fails, a page must still show it.
    try:
        if dialect == STRANDS:
            return strands.parts(payload)
        if dialect == OPENAI:
            return openai.parts(payload)
        if dialect == ASSISTANT_UI:
            return assistant_ui.parts(payload)
    except Exception:
        return (unknown_part(payload),)
    return (unknown_part(payload),)


def summary(dialect: str, payload: object) -> Summary:
    """Return the neutral columns of a payload.

    Args:
        dialect: ``STRANDS``, ``OPENAI`` or ``ASSISTANT_UI``.
        payload: The message or item in the format of its framework.

    Returns:
        The summary; each value is valid for its column. This function never raises, so that any
        message can be stored: an invalid payload has an empty summary.
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
