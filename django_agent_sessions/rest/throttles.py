"""How often somebody may ask; nothing is limited unless the project says so."""

from __future__ import annotations

from typing import Any

from rest_framework.throttling import SimpleRateThrottle

EVERY = "agent-sessions"
"""The scope of all requests; that of the view comes on top."""

SEARCH = "agent-sessions-search"
"""Those with ``q``."""

REDACT = "agent-sessions-redact"
"""Redactions."""

EXPORT = "agent-sessions-export"
"""Exports."""

BRANCH = "agent-sessions-branch"
"""What changes branches, and forks: much may be copied."""

EVENTS = "agent-sessions-events"
"""Streams of events."""

CHAT = "agent-sessions-chat"
"""Answers of agents."""


class SessionThrottle(SimpleRateThrottle):
    """Limits one scope, where ``DEFAULT_THROTTLE_RATES`` has a rate for it."""

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
