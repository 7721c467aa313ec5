"""The texts of errors on pages, in the language of the page."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from django_agent_sessions.exceptions import (
    AgentSessionsError,
    LegalHoldError,
    SessionConflictError,
    WorkLimitError,
)

_TEXTS = {
    LegalHoldError: _("The session is under legal hold. Release it first."),
    SessionConflictError: _("Another process modified the session. Reload the page and try again."),
    WorkLimitError: _(
        "This takes more time or memory than one request may use. Use the command, or redact "
        "messages one by one."
    ),
}


def error_text(error: AgentSessionsError) -> str:
    """Return what a page says of an error; of a rare one the error's own text, in English.

    Both contain ids at most, and no content.
    """
    return next((str(text) for kind, text in _TEXTS.items() if isinstance(error, kind)), str(error))
