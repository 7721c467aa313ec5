"""Titles of threads, made from the user's first message."""

from __future__ import annotations

from typing import Any

from django.db.models.functions import Substr

from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.content.masking import MASK_PATTERN
from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.models import MAIN_BRANCH, Session, SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.locking import lock_session, tracked_atomic, write

_TITLE_LENGTH = 60
_MAX_MESSAGES = 20
_MAX_CHARACTERS = 2000


def first_messages(session: Session, using: str) -> list[dict[str, Any]]:
    """Return the first messages of a session as the client sends them, without redacted content."""
    rows = SessionMessage.objects.using(using).filter(session=session, branch=MAIN_BRANCH)
    messages = rows.filter(role__in=("user", "assistant")).exclude(text="").order_by("id")
    texts = messages.values_list("role", Substr("text", 1, _MAX_CHARACTERS))[:_MAX_MESSAGES]
    return [{"role": role, "content": [{"type": "text", "text": text}]} for role, text in texts]


def set_title(store: SessionStore, session: Session, title: str) -> str:
    """Set the title and return the current one; keep it if it was set meanwhile.

    Sets none if the session was redacted after ``session`` was read, because the title may contain
    the redacted text.
    """
    key = session.pk

    def run(unsure: bool) -> str:
        with tracked_atomic(store.using):
            row = lock_session(store.using, key)
            if row is None:
                raise SessionNotFoundError(f"session {key} does not exist")
            if row.title or row.redaction_epoch != session.redaction_epoch:
                return row.title
            return store.sessions.update(key, title=title).title

    return write(store.using, run, what=f"setting the title of session {key}", savepoint=False)


def first_words(messages: object) -> str:
    """Return the start of the user's first message: at most 60 characters, or an empty string."""
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict) and message.get("role") == "user":
            words = " ".join(" ".join(_texts(message.get("content"))).split())
            if MASK_PATTERN.sub("", words).strip():
                return _truncate(displayable(words))
    return ""


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return [text for text in texts if isinstance(text, str)]


def _truncate(words: str) -> str:
    if len(words) <= _TITLE_LENGTH:
        return words
    head = words[: _TITLE_LENGTH - 1]
    cut = head.rpartition(" ")[0] if " " in head else head
    return f"{cut}…"
