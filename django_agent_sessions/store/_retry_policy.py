"""How often and how long database work is retried."""

from __future__ import annotations

import random
import time

from django_agent_sessions import conf

_SHORTEST_WAIT, _LONGEST_CONFLICT_WAIT, _LONGEST_OUTAGE_WAIT = 0.001, 0.05, 1.0


class RetryPolicy:
    """Retry budget of one call.

    Conflicts with other writers are short, so they are counted (``WRITE_RETRIES``). Outages last
    longer, so they are timed (``RETRY_SECONDS``).
    """

    def __init__(self) -> None:
        settings = conf.get_settings()
        self._conflicts_left = settings.WRITE_RETRIES
        self._deadline = time.monotonic() + settings.RETRY_SECONDS
        self._next_wait = _SHORTEST_WAIT

    def after_conflict(self) -> bool:
        """Wait briefly after a conflict with another writer; return False when no retry is left."""
        self._conflicts_left -= 1
        return self._conflicts_left > 0 and self._wait(_LONGEST_CONFLICT_WAIT)

    def after_outage(self) -> bool:
        """Wait after an outage or a lock timeout; return False when the time is used up."""
        return time.monotonic() < self._deadline and self._wait(_LONGEST_OUTAGE_WAIT)

    def _wait(self, longest: float) -> bool:
        # Jitter, so that two conflicting writers do not retry at the same moment.
        time.sleep(random.uniform(0, min(self._next_wait, longest)))  # noqa: S311 - not a secret
        self._next_wait = min(self._next_wait * 2, _LONGEST_OUTAGE_WAIT)
        return True
