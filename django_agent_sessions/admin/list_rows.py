"""What the list of sessions shows besides their columns: agents, first words, search results."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import OuterRef, QuerySet, Subquery
from django.utils.safestring import SafeString

from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.exceptions import EncryptionError
from django_agent_sessions.models import MAIN_BRANCH, Session, SessionMessage
from django_agent_sessions.queries.beginnings import beginning, beginning_columns
from django_agent_sessions.queries.search import excerpt_of

from .formatting import html, join_html

_MAX_WORDS = 100

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SessionRowData:
    """What the columns show of a session besides its own fields."""

    readable: bool
    agents: tuple[str, ...] = ()
    more_agents: int = 0
    frameworks: tuple[str, ...] = ()
    review: str = ""
    snippet: str = ""
    """The HTML of the words around what a search found."""
    last_message_at: datetime | None = None
    last_words: str = ""
    """How the last message begins; empty if the session is not readable."""
    status: str = ""
    """Why it does not run, if the column is shown: see ``run_status``."""


def last_messages(
    sessions: Collection[UUID], using: str, *, readable: Collection[UUID]
) -> dict[UUID, tuple[datetime, str]]:
    """Return the time of each session's last message, and its first words if it is readable."""
    if not sessions:
        return {}
    rows = _one_of_each(sessions, using, order="-id")
    found = rows.values_list("session", "created_at", *beginning_columns(_MAX_WORDS))
    return {
        key: (moment, _words(key, begins) if key in readable else "")
        for key, moment, *begins in found
    }


def _one_of_each(sessions: Collection[UUID], using: str, *, order: str) -> QuerySet[Any]:
    """Return the first message of the main branches of each session in an order of the keys."""
    own = SessionMessage.objects.filter(session=OuterRef("pk"), branch=MAIN_BRANCH).order_by(order)
    ones = Session.objects.filter(pk__in=sessions).values(one=Subquery(own.values("pk")[:1]))
    return SessionMessage.objects.using(using).filter(pk__in=ones.order_by()).order_by()


def _words(session: UUID, begins: Sequence[Any]) -> str:
    try:
        return " ".join(displayable(beginning(_MAX_WORDS, *begins)).split())
    except EncryptionError as error:
        # The list is for all owners, and one of them may have no key any more.
        logger.warning("the first words of session %s cannot be decrypted: %s", session, error)
        return ""


def snippets(messages: Mapping[UUID, UUID], query: str, using: str) -> dict[UUID, SafeString]:
    """Return the words around what a search found, with the match marked, by session."""
    rows = SessionMessage.objects.using(using).filter(pk__in=messages.values()).order_by()
    found = rows.values_list("session", excerpt_of(query)) if messages else ()
    return {session: _marked(displayable(text), query) for session, text in found}


def _marked(text: str, query: str) -> SafeString:
    phrase = query.strip()
    words: Any = [phrase] if phrase.lower() in text.lower() else phrase.replace('"', " ").split()
    pattern = "|".join(re.escape(word) for word in words) or r"\Z"
    pieces = re.split(f"({pattern})", text, flags=re.IGNORECASE)
    return join_html(
        html("<mark>{}</mark>", piece) if number % 2 else piece
        for number, piece in enumerate(pieces)
    )
