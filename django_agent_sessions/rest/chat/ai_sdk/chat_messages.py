"""Reading the messages of a chat."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from typing import ClassVar
from urllib.parse import quote, urlencode
from uuid import UUID

from django.http import Http404
from django.urls import NoReverseMatch, reverse
from django.utils.encoding import escape_uri_path
from rest_framework.exceptions import ValidationError

from django_agent_sessions.content.paths import Path
from django_agent_sessions.models import Session
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.queries import message_pages
from django_agent_sessions.rest.access import SCOPE, SCOPE_ALL

from .chat_sessions import ChatSessionMixin, parse_uuid
from .claims import Claims
from .run_registry import runs
from .runs import Run
from .ui_messages import UIMessage, page_of

logger = logging.getLogger(__name__)

_MAX_LIMIT = 200


class ChatTranscriptMixin(ChatSessionMixin):
    """A view that reads the messages of a chat."""

    cache: ClassVar[str] = "default"
    """The alias of the cache through which processes share their claims."""

    def file_url(self, message: UUID, path: Path) -> str | None:
        """Return the URL of a binary at a path of a message; by default in the API of sessions."""
        try:
            url = reverse("agent_sessions_api:message-media", args=[message])
        except NoReverseMatch:
            return None
        everybody = f"&{SCOPE}={SCOPE_ALL}" if self.reaches_everybody else ""
        return f"{url}?path={quote(json.dumps(list(path)))}{everybody}"

    def read_messages(
        self, key: str, loop: asyncio.AbstractEventLoop
    ) -> tuple[list[UIMessage], str]:
        """Return a page of messages, and a ``Link`` header to the previous page or an empty string.

        Raises ``Http404`` if the session is out of reach.
        """
        query = self.request.query_params
        session = self.find_session(self.accessible_sessions(), key)
        if not self.has_permissions(session, SessionPermission.READ):
            raise Http404
        before, limit = _parse_before(query.get("before")), _parse_limit(query.get("limit"))
        own = before is None and self.owns(session)
        # Before reading the messages: an answer that ends meanwhile can still be resumed.
        run = runs.active(session.pk)
        partial = self._partial(session, run, loop) if own else None
        page = page_of(session, before=before, limit=limit, link=self.file_url)
        messages = page.messages
        self.record_access(session, view="ai-sdk", messages=len(messages))
        if partial is not None:
            messages = _without_answer(partial[0], messages, run)
        if page.before is None:
            return messages, ""
        earlier = {**query.dict(), "before": str(page.before), "limit": str(limit)}
        path = f"{escape_uri_path(self.request.path)}?{urlencode(earlier)}"
        return messages, f'<{self.request.build_absolute_uri(path)}>; rel="prev"'

    def _partial(
        self, session: Session, run: Run | None, loop: asyncio.AbstractEventLoop
    ) -> tuple[UUID | None] | None:
        """Return the last message before an answer that is not stored completely yet."""
        if run is not None:
            replayable = run.answer.can_replay(session.redaction_epoch, loop)
            return (run.answer.before,) if replayable else None
        try:
            running = Claims(self.cache).running(session.pk)
        except Exception as error:
            logger.warning(
                "session %s: the cache cannot be read: %s", session.pk, type(error).__name__
            )
            return None
        return None if running is None else (running[1],)


def _without_answer(
    before: UUID | None, messages: list[UIMessage], run: Run | None
) -> list[UIMessage]:
    """Leave out what a client receives by resuming the current answer.

    The user's message stays; it is taken from the request if the agent has not stored it yet.
    """
    earlier = [
        message for message in messages if before is not None and UUID(message["id"]) <= before
    ]
    questions = [message for message in messages[len(earlier) :] if message["role"] == "user"]
    if not questions and run is not None:
        message_id = run.chat.message_id or run.answer.id
        questions = [{"id": message_id, "role": "user", "parts": run.chat.ui_parts}]
    return [*earlier, *questions[:1]]


def _parse_before(value: str | None) -> UUID | None:
    if value is None:
        return None
    message_id = parse_uuid(value)
    if message_id is None:
        raise ValidationError({"before": ["Must be the id of a message."]})
    return message_id


def _parse_limit(value: str | None) -> int:
    if value is None:
        return message_pages.MESSAGES_PER_PAGE
    if not re.fullmatch("[0-9]{1,6}", value) or not 1 <= int(value) <= _MAX_LIMIT:
        raise ValidationError({"limit": [f"Must be an integer from 1 to {_MAX_LIMIT}."]})
    return int(value)
