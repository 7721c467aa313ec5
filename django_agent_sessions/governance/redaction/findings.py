"""Matches of a redaction in one session, and the pending changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Model

from django_agent_sessions.content import masking
from django_agent_sessions.content.masking import Finder
from django_agent_sessions.content.paths import Path
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.store.contents import MessageRow

from .plan import Plan
from .scopes import Hit, Place


@dataclass
class PayloadChange:
    """A row to update; ``is_copy`` marks copies of a named message."""

    row: Model
    columns: dict[str, Any]
    message: MessageRow | None = None
    contents: bytes | None = None
    is_copy: bool = False


class Findings:
    """Collects the matches and changes of one session."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.hits: list[Hit] = []
        self.kept: list[Place] = []
        self.unread: list[Place] = []
        self.secrets: set[str] = set()
        self.changes: list[PayloadChange] = []

    def mask(
        self,
        value: Any,
        place: Place,
        *,
        free: bool = False,
        finders: Sequence[Finder] | None = None,
    ) -> Any:
        """Mask the matches of the session-wide finders, or of the given ones, and record them."""
        finders = self._plan.everywhere if finders is None else finders
        if not finders:
            return value
        is_corrupt = isinstance(value, CorruptPayload)
        kept: list[Path] = []
        content = value.text if isinstance(value, CorruptPayload) else value
        changed, hits = masking.mask_tree(content, finders, free=free, kept=kept)
        self.kept += [with_subpath(place, path) for path in kept]
        for hit in hits:
            self.secrets.add(hit.found)
            self.hits.append(Hit(with_subpath(place, hit.path), hit.kind, hit.before, hit.after))
        if not hits:
            return value
        return CorruptPayload(changed) if is_corrupt else changed

    def keep_id(self, value: str | None, place: Place) -> None:
        """Record an id that contains a named text; ids are not changed."""
        if value and masking.find_matches(value, self._plan.named):
            self.kept.append(place)

    def change(self, row: Model, columns: dict[str, Any], *, follows: bool = False) -> None:
        """Record the columns to write, if any."""
        if columns:
            self.changes.append(PayloadChange(row, columns, is_copy=follows))

    @property
    def messages(self) -> int:
        """The number of messages to change."""
        return sum(change.message is not None for change in self.changes)

    def kinds(self) -> dict[str, int]:
        """Return the number of matches per kind."""
        kinds: dict[str, int] = {}
        for hit in self.hits:
            kinds[hit.kind or "NAMED"] = kinds.get(hit.kind or "NAMED", 0) + 1
        return kinds


def place_of(kind: str, row: Model, name: str, column: str) -> Place:
    return Place(kind, row.pk, name, column)


def with_subpath(place: Place, path: Path) -> Place:
    """Return a place with a path appended."""
    return replace(place, path=(*place.path, *path))
