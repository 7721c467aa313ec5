"""How often somebody may ask; nothing is limited unless the project says so."""

from __future__ import annotations

from typing import Any

from rest_framework.throttling import SimpleRateThrottle

EVERY = "agent-sessions"
"""The scope of all requests; that of the view comes on top."""


class SessionThrottle(SimpleRateThrottle):
    """Limits one scope, where ``DEFAULT_THROTTLE_RATES`` has a rate for it.

    The scopes: ``agent-sessions`` for all requests, and beside it ``agent-sessions-search`` for
    those with ``q``, ``agent-sessions-redact``, ``agent-sessions-export``,
    ``agent-sessions-branch`` for what changes branches and forks, ``agent-sessions-events`` and
    ``agent-sessions-chat``.

    Args:
        scope: The scope.
    """

    def __init__(self, scope: str) -> None:
        self.scope = scope
        super().__init__()

    def get_rate(self) -> str | None:
        """Looks up the rate; none is no limit."""
        return self.THROTTLE_RATES.get(self.scope or "")

    def get_cache_key(self, request: Any, view: Any) -> str:
        """Counts by user, and by address where nobody is logged in."""
        user = request.user
        who = user.pk if user and user.is_authenticated else self.get_ident(request)
        return self.cache_format % {"scope": self.scope, "ident": who}
