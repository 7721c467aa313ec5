"""The scopes of a redaction, in order of what they reach, and how each is applied."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import UUID

from django_agent_sessions import detectors, masking
from django_agent_sessions.exceptions import RedactionScopeError
from django_agent_sessions.masking import Finder
from django_agent_sessions.references import Path

from .scopes import Block, Detect, Find, Scope, Span, WholeMessage


class Plan:
    """The scopes, in order of what they reach."""

    def __init__(self, scopes: Sequence[Scope]) -> None:
        self.everywhere: list[Finder] = []
        # What detectors take for a card in an id or a state's own bookkeeping is chance.
        self.named: list[Finder] = []
        self.by_message: dict[UUID, list[Scope]] = {}
        # As they were typed, which may not be how they were found.
        self.named_texts = {s.text for s in scopes if isinstance(s, Find) and not s.pattern}
        for scope in scopes:
            if isinstance(scope, Find | Detect) and scope.message is None:
                made = finder(scope)
                self.everywhere.append(made)
                if isinstance(scope, Find):
                    self.named.append(made)
            elif not isinstance(scope.message, UUID):
                raise RedactionScopeError(
                    "a scope names a message by its primary key, a UUID: give message.id"
                )
            else:
                self.by_message.setdefault(scope.message, []).append(scope)


@dataclass(frozen=True)
class Spans:
    """All spans of one text: cut out one by one, the first would move the others."""

    path: Path
    parts: tuple[tuple[int, int], ...]


Cut: TypeAlias = WholeMessage | Block | Spans


def finder(scope: Find | Detect) -> Finder:
    """Makes what finds what a scope names."""
    if isinstance(scope, Detect):
        known = detectors.load(scope.names) if scope.names else detectors.available()
        return masking.Detecting(known)
    # A blank pattern would find only what nobody sees: whoever gave it meant something else.
    if not scope.text.strip():
        raise RedactionScopeError("there is nothing to look for")
    found = _named(scope)
    if found is None:
        raise RedactionScopeError("the pattern is not valid")
    return found


def _named(scope: Find) -> Finder | None:
    try:
        return masking.Pattern(scope.text) if scope.pattern else masking.Literal(scope.text)
    except (ValueError, re.error, OverflowError, RecursionError):
        # The message of the second holds the pattern: not even as context it may go along. The
        # others are of patterns that repeat something too often, or nest too deep.
        return None


def in_order(scopes: Sequence[Scope]) -> list[Find | Detect | Cut]:
    """Puts what names places by number before what changes the numbers."""
    by_path: dict[Path, list[tuple[int, int]]] = {}
    for scope in scopes:
        if isinstance(scope, Span):
            by_path.setdefault(scope.path, []).append((scope.start, scope.end))
    spans = [Spans(path, tuple(dict.fromkeys(parts))) for path, parts in by_path.items()]
    return [*spans, *(scope for scope in scopes if not isinstance(scope, Span))]


def tried(scope: Cut, payload: Any, dialect: str) -> Any:
    """Applies a scope to a payload; None if there is nothing at its place."""
    try:
        return _cut(scope, payload, dialect)
    except LookupError:
        # Its message holds the key that is not there: not even as context it may go along.
        return None


def _cut(scope: Cut, payload: Any, dialect: str) -> Any:
    if isinstance(scope, WholeMessage):
        return masking.blank(dialect, payload)
    if isinstance(scope, Block):
        return masking.blank_block(dialect, payload, scope.path)
    return masking.blank_spans(payload, scope.path, *scope.parts)
