"""Throttles of the API; nothing is limited unless the project sets a rate."""

from __future__ import annotations

from typing import Any

from rest_framework.throttling import SimpleRateThrottle

ALL = "agent-sessions"
"""The scope of all requests; a view's own scope applies in addition."""

SEARCH = "agent-sessions-search"
"""The scope of searches (``q``)."""

REDACT = "agent-sessions-redact"
"""The scope of redactions."""

EXPORT = "agent-sessions-export"
"""The scope of exports."""

BRANCH = "agent-sessions-branch"
"""The scope of forks and of changes of branches, which may copy many messages."""

EVENTS = "agent-sessions-events"
"""The scope of event streams."""

CHAT_SCOPE = "agent-sessions-chat"
"""The scope of agents' answers."""


class SessionThrottle(SimpleRateThrottle):
    """A throttle of one scope, if ``DEFAULT_THROTTLE_RATES`` has a rate for it."""

    def __init__(self, scope: str) -> None:
        self.scope = scope
        super().__init__()

    def get_rate(self) -> str | None:
        """Return the rate of the scope, or ``None`` for no limit."""
        return self.THROTTLE_RATES.get(self.scope or "")

    def get_cache_key(self, request: Any, view: Any) -> str:
        """Return a key per user, or per client address if the user is anonymous."""
        user = request.user
        ident = user.pk if user and user.is_authenticated else self.get_ident(request)
        return self.cache_format % {"scope": self.scope, "ident": ident}
