"""The matches that were masked in a payload."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from django_agent_sessions.content.dialects.redaction import mask
from django_agent_sessions.content.paths import Path
from django_agent_sessions.content.work_budget import hold_work

from .finders import Match

_EXCERPT = 40
_LONGEST_FOUND = 2000

MAX_LISTED_MATCHES = 1000
"""How many matches are kept; all are counted and masked."""


@dataclass(frozen=True, slots=True)
class MaskedMatch:
    """A match that was masked."""

    path: Path = field(repr=False)
    kind: str
    found: str = field(repr=False)
    before: str = field(repr=False)
    after: str = field(repr=False)


class MaskedMatches(list[MaskedMatch]):
    """The first matches, with the number of all of each kind, and their texts."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds: Counter[str] = Counter()
        self.texts: set[str] = set()
        self.replaced: list[Path] = []
        """The paths of compressed files that were replaced as a whole."""
        self.unread: list[Path] = []
        """The paths of files that were not searched completely."""

    def record(self, path: Path, text: str, match: Match) -> None:
        self.kinds[match.kind] += 1
        start, end = match.start, match.end
        if end - start <= _LONGEST_FOUND and (found := text[start:end]) not in self.texts:
            hold_work(len(found))
            self.texts.add(found)
        if len(self) >= MAX_LISTED_MATCHES:
            return
        left, right = text[max(0, start - _EXCERPT) : start], text[end : end + _EXCERPT]
        found = text[start : min(end, start + _LONGEST_FOUND)]
        found += "…" * (end - start > _LONGEST_FOUND)
        after = mask(match.kind).join((left, right))
        self.append(MaskedMatch(path, match.kind, found, f"{left}{found}{right}", after))
