"""The scopes of a redaction, grouped by reach, and their application to a payload."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import UUID

from django_agent_sessions.content import detectors, masking
from django_agent_sessions.content.masking import Finder, Finders
from django_agent_sessions.content.paths import Path
from django_agent_sessions.exceptions import RedactionScopeError

from .scopes import Block, Detect, Find, Scope, Span, WholeMessage, message_key

SHORTEST_TEXT = 2
"""The fewest characters of a text to find. One letter is in every text."""


class ScopeGroups:
    """The scopes, grouped by reach: the whole session, or one message."""

    def __init__(self, given: Sequence[Scope | str]) -> None:
        scopes = [Find(each) if isinstance(each, str) else each for each in given]
        everywhere: list[Finder] = []
        self.by_message: dict[UUID, list[Scope]] = {}
        # As entered; the matches may have another spelling.
        self.named_texts = {s.text for s in scopes if isinstance(s, Find) and not s.pattern}
        for scope in scopes:
            if not isinstance(scope, Scope):
                raise RedactionScopeError(
                    f"a {type(scope).__name__} is no scope: pass Find(text), Detect(), or "
                    "WholeMessage, Block or Span with message.id"
                )
            if isinstance(scope, Find | Detect) and scope.message is None:
                everywhere.append(finder_for(scope))
            else:
                self.by_message.setdefault(message_key(scope.message), []).append(scope)
        self.everywhere = Finders(everywhere)
        # Without detectors, whose matches in ids and internal state are coincidences.
        self.named = self.everywhere.exact

    def limited_to(self, texts: Collection[str]) -> ScopeGroups:
        """Return groups that search the whole session for these texts only."""
        limited = copy(self)
        finders = [masking.TextFinder(text) for text in sorted(texts) if text.strip()]
        limited.everywhere, limited.named = Finders(finders), Finders()
        return limited


@dataclass(frozen=True)
class Spans:
    """All spans of one text, applied at once, because masking one moves the others."""

    path: Path
    parts: tuple[tuple[int, int], ...]


PositionalScope: TypeAlias = WholeMessage | Block | Spans


def finder_for(scope: Find | Detect) -> Finder:
    """Return the finder for a scope."""
    if isinstance(scope, Detect):
        known = detectors.load(scope.names) if scope.names else detectors.available()
        return masking.DetectorFinder(known)
    if not isinstance(scope.text, str):
        raise RedactionScopeError(f"the text to find is a {type(scope.text).__name__}, not a str")
    # A blank pattern would match only white space, which is never intended.
    if not scope.text.strip():
        raise RedactionScopeError("the text or pattern to find is empty")
    if not scope.pattern and len(scope.text.strip()) < SHORTEST_TEXT:
        raise RedactionScopeError(
            f"the text to find has fewer than {SHORTEST_TEXT} characters, without the white space "
            "around it: redact the part or the message that contains it"
        )
    text_finder = _text_finder(scope)
    if text_finder is None:
        raise RedactionScopeError("the pattern is not a valid regular expression")
    return text_finder


def _text_finder(scope: Find) -> Finder | None:
    try:
        return (
            masking.PatternFinder(scope.text) if scope.pattern else masking.TextFinder(scope.text)
        )
    except (ValueError, re.error, OverflowError, RecursionError):
        # Not chained, because the message of re.error contains the pattern. OverflowError and
        # RecursionError: a repetition is too large, or the nesting too deep.
        return None


def spans_first(scopes: Sequence[Scope]) -> list[Find | Detect | PositionalScope]:
    """Return the scopes with spans first, because the other scopes move positions."""
    by_path: dict[Path, list[tuple[int, int]]] = {}
    for scope in scopes:
        if isinstance(scope, Span):
            by_path.setdefault(scope.path, []).append((scope.start, scope.end))
    spans = [Spans(path, tuple(dict.fromkeys(parts))) for path, parts in by_path.items()]
    return [*spans, *(scope for scope in scopes if not isinstance(scope, Span))]


def apply_scope(scope: PositionalScope, payload: Any, dialect: str) -> Any:
    """Return a payload with a scope applied, or None if its path does not exist."""
    try:
        return _apply(scope, payload, dialect)
    except LookupError:
        # Not chained, because the message of the error contains a key of the payload.
        return None


def _apply(scope: PositionalScope, payload: Any, dialect: str) -> Any:
    if isinstance(scope, WholeMessage):
        return masking.redact_message(dialect, payload)
    if isinstance(scope, Block):
        return masking.redact_block(dialect, payload, scope.path)
    return masking.redact_spans(payload, scope.path, *scope.parts)
