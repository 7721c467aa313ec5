"""What a redaction finds in a row, and what it will write there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from django_agent_sessions.content import dialects, masking
from django_agent_sessions.content.masking import Finder
from django_agent_sessions.content.paths import Path
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.store.contents import Copy, MessageRow

from .scope_groups import ScopeGroups
from .scopes import Hit, MatchGroup, Place


@dataclass
class RowFindings:
    """The matches in one row.

    ``values`` are the new values of its columns, ``message`` the redacted version of a message.
    ``is_copy`` marks copies of a named message, ``is_hidden`` what the user does not see.
    """

    groups: ScopeGroups
    copy: Copy
    hits: list[Hit] = field(default_factory=list)
    counts: Counter[MatchGroup] = field(default_factory=Counter)
    kept: list[Place] = field(default_factory=list)
    unread: list[Place] = field(default_factory=list)
    secrets: set[str] = field(default_factory=set, repr=False)
    values: dict[str, Any] = field(default_factory=dict, repr=False)
    message: MessageRow | None = None
    is_copy: bool = False
    is_hidden: bool = False

    def __bool__(self) -> bool:
        found = self.counts or self.kept or self.unread or self.values
        return bool(found) or self.message is not None

    def place(self, column: str) -> Place:
        """Return the place of a column of the row."""
        row, columns = self.copy.row, self.copy.columns
        name = str(getattr(row, columns.name)) if columns.name else ""
        if columns.kind == "snapshot":
            name = name or "latest"
        return Place(columns.kind, row.pk, name, column)

    def mask(
        self,
        value: Any,
        place: Place,
        *,
        free: bool = False,
        finders: Sequence[Finder] | None = None,
        dialect: str | None = None,
    ) -> Any:
        """Mask the matches of the session-wide finders, or of the given ones, and record them."""
        finders = self.groups.everywhere if finders is None else finders
        if not finders or value is None or value in ("", b"", {}, []):
            return value
        is_corrupt = isinstance(value, CorruptPayload)
        kept: list[Path] = []
        content = value.text if isinstance(value, CorruptPayload) else value
        changed, hits = masking.mask_tree(content, finders, free=free, kept=kept)
        self.kept += [with_subpath(place, path) for path in kept]
        self.unread += [with_subpath(place, path) for path in hits.unread]
        self.secrets |= hits.texts
        for kind, count in hits.kinds.items():
            self.count(place, kind, count)
        self.hits += [
            Hit(with_subpath(place, hit.path), hit.kind, hit.before, hit.after)
            for hit in hits[: max(0, masking.MAX_LISTED_MATCHES - len(self.hits))]
        ]
        if not hits:
            return value
        if dialect is not None and hits.replaced:
            changed = _without_files(changed, dialect, hits.replaced)
        return CorruptPayload(changed) if is_corrupt else changed

    def count(self, place: Place, kind: str = "", count: int = 1) -> None:
        """Count matches in a column."""
        self.counts[MatchGroup(place.kind, place.key, place.column, kind)] += count

    def keep_id(self, value: str | None, place: Place) -> None:
        """Record an id that contains a named text; ids are not changed."""
        if value and any(self.groups.named.find(value)):
            self.kept.append(place)


def _without_files(payload: Any, dialect: str, paths: Sequence[Path]) -> Any:
    """Replace the blocks of a message whose files were masked, which no model could read."""
    for path in paths:
        blocks = dialects.get(dialect).blocks(payload)
        around = [
            part.path
            for block in blocks
            for part in (block, *block.inner)
            if part.path and path[: len(part.path)] == part.path
        ]
        if around:
            with suppress(LookupError):
                payload = masking.redact_block(dialect, payload, max(around, key=len))
    return payload


def count_kinds(counts: Mapping[MatchGroup, int]) -> dict[str, int]:
    """Return the number of matches per kind."""
    kinds: dict[str, int] = {}
    for group, count in counts.items():
        kinds[group.mask or "NAMED"] = kinds.get(group.mask or "NAMED", 0) + count
    return kinds


def with_subpath(place: Place, path: Path) -> Place:
    """Return a place with a path appended."""
    return replace(place, path=(*place.path, *path))
