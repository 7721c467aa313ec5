"""What a run may still have in memory of items that somebody redacted meanwhile."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from django_agent_sessions import masking
from django_agent_sessions.records import PlacedPayload

_MOST_READ = 3


class Memory:
    """The items that were given to the SDK or came from it, as they were then."""

    def __init__(self, epoch: int | None = None) -> None:
        self.epoch = epoch
        # By branch and position; and what was read since and is still to be put there.
        self._items: dict[tuple[int, int], Any] = {}
        self._read: list[tuple[int, Collection[PlacedPayload]]] = []
        self._secrets: set[str] = set()
        self._redacted: list[tuple[Any, Any]] = []

    def has_read(self, found: Collection[PlacedPayload], *, branch: int = 0) -> None:
        """Notes what is in the database, and what was taken out of it since it was known."""
        for placed in found:
            if placed.redacted:
                self._compare(placed, branch)
        # Put in its place when it is looked for: most is never.
        self._read.append((branch, found))
        if len(self._read) > _MOST_READ:
            self._known()

    def has_missed(
        self, aside: Collection[PlacedPayload], found: Collection[PlacedPayload], *, branch: int = 0
    ) -> None:
        """Notes what was taken out of items that are not on their branch any more.

        Going back in time leaves an item its position on another branch. Where several branches
        have something redacted there, any of it may be what is known.
        """
        there = {placed.position: placed.payload for placed in found}
        for placed in aside:
            known = self._known().get((branch, placed.position))
            if known is not None and known != there.get(placed.position):
                self._compare(placed, branch)

    def has_written(self, written: Iterable[tuple[int, Any]], *, branch: int = 0) -> None:
        """Notes what was written."""
        self._known().update(((branch, position), item) for position, item in written)

    def has_popped(self, taken: PlacedPayload | None, *, branch: int = 0) -> None:
        """Notes what was taken away, perhaps redacted, and may be put back from memory."""
        if taken is not None:
            self._compare(taken, branch)
            self._known().pop((branch, taken.position), None)

    def clean(self, item: Any) -> Any:
        """Takes out of an item what is known to be redacted."""
        for before, after in self._redacted:
            if item == before:
                return after
        return masking.scrub(item, self._secrets, free=False) if self._secrets else item

    def _known(self) -> dict[tuple[int, int], Any]:
        for branch, found in self._read:
            self._items.update({(branch, placed.position): placed.payload for placed in found})
        self._read.clear()
        return self._items

    def _compare(self, placed: PlacedPayload, branch: int) -> None:
        known = self._known().get((branch, placed.position), placed.payload)
        # Another item may have taken the place: only the row proves a redaction.
        if placed.redacted and known is not placed.payload and known != placed.payload:
            self._redacted.append((known, placed.payload))
            self._secrets |= masking.significant(masking.removed(known, placed.payload))
