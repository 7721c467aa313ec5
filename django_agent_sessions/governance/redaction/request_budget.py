"""The work that one request may cause with a redaction or its preview."""

from __future__ import annotations

from django_agent_sessions.conf import get_settings
from django_agent_sessions.content.work_budget import WorkBudget

_STAFF_FACTOR = 10
_ADVICE = (
    "Redact the messages one by one, search for fewer kinds, or ask the site's operator to run "
    "`manage.py redact_agent_session`, which has no limit. Nothing was changed."
)


def request_budget(*, staff: bool) -> WorkBudget:
    """Return the budget of a request; ``staff`` are users with the permission ``redact``."""
    settings = get_settings()
    factor = _STAFF_FACTOR if staff else 1
    return WorkBudget(
        settings.REDACTION_SECONDS * factor, settings.REDACTION_BYTES * factor, _ADVICE
    )
