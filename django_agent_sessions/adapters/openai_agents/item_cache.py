"""Items in a run's memory that may have been redacted in the database meanwhile."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from django_agent_sessions.content import masking
from django_agent_sessions.values.records import PositionedPayload

_MAX_PENDING = 3


class ItemCache:
    """The items that the SDK has read or written, with their content at that time."""

    def __init__(self, epoch: int | None = None) -> None:
        # The redaction epoch that a write sends. One that is too old is safe: the write reloads.
        self.epoch = epoch
        # By branch and position. `_pending` has the pages that are not yet entered there.
        self._items: dict[tuple[int, int], Any] = {}
        self._pending: list[tuple[int, Collection[PositionedPayload]]] = []
        self._secrets: set[str] = set()
        self._replacements: list[tuple[Any, Any]] = []

    def record_read(self, read_items: Collection[PositionedPayload], *, branch: int = 0) -> None:
        """Record items that were read, and redactions since they were known."""
        for placed in read_items:
            if placed.redacted:
                self._record_redaction(placed, branch)
        # Entered only when it is needed, which is rare.
        self._pending.append((branch, read_items))
        if len(self._pending) > _MAX_PENDING:
            self._items_by_position()

    def record_moved(
        self,
        aside: Collection[PositionedPayload],
        found: Collection[PositionedPayload],
        *,
        branch: int = 0,
    ) -> None:
        """Record redactions of items that were moved to another branch.

        A rewind keeps the positions of the items that it moves. If several branches have a redacted
        item at a position, each of them may be the known item.
        """
        current = {placed.position: placed.payload for placed in found}
        for placed in aside:
            known = self._items_by_position().get((branch, placed.position))
            if known is not None and known != current.get(placed.position):
                self._record_redaction(placed, branch)

    def record_written(self, written: Iterable[tuple[int, Any]], *, branch: int = 0) -> None:
        """Record items that were written."""
        self._items_by_position().update(((branch, position), item) for position, item in written)

    def record_popped(self, taken: PositionedPayload | None, *, branch: int = 0) -> None:
        """Record an item that was removed, perhaps redacted, and that a caller may write back."""
        if taken is not None:
            self._record_redaction(taken, branch)
            self._items_by_position().pop((branch, taken.position), None)

    def clean(self, item: Any) -> Any:
        """Return an item without the texts that are known to be redacted."""
        for before, after in self._replacements:
            if item == before:
                return after
        return masking.mask_texts(item, self._secrets, free=False) if self._secrets else item

    def _items_by_position(self) -> dict[tuple[int, int], Any]:
        for branch, found in self._pending:
            self._items.update({(branch, placed.position): placed.payload for placed in found})
        self._pending.clear()
        return self._items

    def _record_redaction(self, placed: PositionedPayload, branch: int) -> None:
        known = self._items_by_position().get((branch, placed.position), placed.payload)
        # The position may have another item now: only the row's flag proves a redaction.
        if placed.redacted and known is not placed.payload and known != placed.payload:
            self._replacements.append((known, placed.payload))
            self._secrets |= masking.searchable_texts(masking.masked_texts(known, placed.payload))
