"""How many streams somebody has open in this process."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Hashable


class Place:
    """One stream's place, until it is given back or forgotten."""

    def __init__(self, places: Places, key: Hashable) -> None:
        self._places = places
        self._key = key
        self._taken = True

    def give_back(self) -> None:
        """Lets another stream have it; more than once is once."""
        if self._taken:
            self._taken = False
            self._places.release(self._key)

    def __del__(self) -> None:
        # A response that nobody ever read from.
        self.give_back()


class Places:
    """Places by somebody's key."""

    def __init__(self) -> None:
        # Reentrant: what frees a place may run in the middle of taking one.
        self._lock = threading.RLock()
        self._taken: Counter[Hashable] = Counter()

    def take(self, key: Hashable, most: int) -> Place | None:
        """Takes a place."""
        with self._lock:
            if self._taken[key] >= most:
                return None
            self._taken[key] += 1
        return Place(self, key)

    def release(self, key: Hashable) -> None:
        """Frees a place."""
        with self._lock:
            self._taken[key] -= 1
            if self._taken[key] <= 0:
                del self._taken[key]
