"""How long, and how often, database work is tried again."""

from __future__ import annotations

import random
import time

from django_agent_sessions import conf

_SHORTEST, _LONGEST_MEETING, _LONGEST_OUTAGE = 0.001, 0.05, 1.0


class Patience:
    """The patience of one call; it is used up by waiting.

    Writers who meet at one conversation do so for moments, and are counted
    (``WRITE_RETRIES``). An outage lasts as long as it lasts, and is timed (``RETRY_SECONDS``).
    """

    def __init__(self) -> None:
        settings = conf.get_settings()
        self._meetings = settings.WRITE_RETRIES
        self._until = time.monotonic() + settings.RETRY_SECONDS
        self._longest = _SHORTEST

    def after_meeting(self) -> bool:
        """Waits a moment because another writer was faster."""
        self._meetings -= 1
        return self._meetings > 0 and self._wait(_LONGEST_MEETING)

    def after_outage(self) -> bool:
        """Waits because the server was away, or somebody held a lock for too long."""
        return time.monotonic() < self._until and self._wait(_LONGEST_OUTAGE)

    def _wait(self, longest: float) -> bool:
        # Jitter, so that writers who met once do not meet again.
        time.sleep(random.uniform(0, min(self._longest, longest)))  # noqa: S311 - not a secret
        self._longest = min(self._longest * 2, _LONGEST_OUTAGE)
        return True
