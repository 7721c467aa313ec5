"""What the full-text index takes, which a project makes by a command of the app if it wants it."""

from __future__ import annotations

import io

from django.core.management import call_command
from django.test.utils import override_settings

from django_agent_sessions.models import SessionMessage
from django_agent_sessions.queries.search import WORDS_INDEX

from .databases import table_size


def bytes_per_message(alias: str) -> str:
    """Makes the index of all messages that are there, and measures it."""
    given = {"DATABASE": alias, "FULL_TEXT_SEARCH": "simple"}
    with override_settings(AGENT_SESSIONS=given):
        call_command("agent_sessions_search_index", "create", database=alias, stdout=io.StringIO())
    count = SessionMessage.objects.using(alias).count()
    size = table_size([WORDS_INDEX]) / count
    return (
        f"The full-text index, which is not included, adds {size:,.0f} bytes for each message, and "
        "more for a larger vocabulary than the few words of these messages."
    )
