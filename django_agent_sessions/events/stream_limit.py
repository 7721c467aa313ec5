"""Limit the number of streams that a user has open in this process."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Hashable


class StreamSlot:
    """One of a user's streams, until it is released or garbage collected."""

    def __init__(self, places: StreamLimit, key: Hashable) -> None:
        self._places = places
        self._key = key
        self._taken = True

    def give_back(self) -> None:
        """Release the place; repeated calls do nothing."""
        if self._taken:
            self._taken = False
            self._places.release(self._key)

    def __del__(self) -> None:
        # The response was never iterated.
        self.give_back()


class StreamLimit:
    """Count the open streams by key."""

    def __init__(self) -> None:
        # Reentrant: the garbage collector may run `Place.__del__` during `take`.
        self._lock = threading.RLock()
        self._taken: Counter[Hashable] = Counter()

    def take(self, key: Hashable, most: int) -> StreamSlot | None:
        """Return a place; None if the limit is reached."""
        with self._lock:
            if self._taken[key] >= most:
                return None
            self._taken[key] += 1
        return StreamSlot(self, key)

    def release(self, key: Hashable) -> None:
        with self._lock:
            self._taken[key] -= 1
            if self._taken[key] <= 0:
                del self._taken[key]
