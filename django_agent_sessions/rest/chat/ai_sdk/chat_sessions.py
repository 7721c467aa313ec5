"""The user's session that a client names, and its messages."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar
from urllib.parse import quote, urlencode
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import Http404
from django.urls import NoReverseMatch, reverse
from django.utils.crypto import salted_hmac
from django.utils.encoding import escape_uri_path

from django_agent_sessions.content import dialects
from django_agent_sessions.content.paths import Path
from django_agent_sessions.db import bridge
from django_agent_sessions.exceptions import InvalidIdError, SessionConflictError
from django_agent_sessions.governance import quotas
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.models.querysets import MessageQuerySet, SessionQuerySet
from django_agent_sessions.models.roles import has_role, owned_by_viewer, store_owner
from django_agent_sessions.queries import message_pages
from django_agent_sessions.rest.access import SCOPE, SCOPE_ALL
from django_agent_sessions.rest.converters import parse_uuid
from django_agent_sessions.rest.pagination import BEFORE, id_parameter, page_size
from django_agent_sessions.rest.problems import Conflict
from django_agent_sessions.rest.streaming import StreamingAPI
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.ids import may_be_issued, new_id, validate_id

from .answers import Answer
from .chat import REGENERATE, Chat, ChatRequest
from .claims import Claims, Refusal, Stored
from .run_registry import runs
from .runs import Run
from .sent_before import answer_after, find_question, last_question, stored_after
from .ui_messages import UIMessage, page_of


class ChatSessionAPI(StreamingAPI):
    """A view that finds sessions by the client's ids, and reads their messages."""

    namespace: ClassVar[str | None] = ""
    """The namespace of its sessions, which separates chats from each other."""

    cache: ClassVar[str] = "default"
    """The alias of the cache through which processes share their claims."""

    async def run_orm(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run ORM code without blocking the event loop."""
        return await bridge.run_async(lambda: function(*args), using=self.using)

    def open_chat(self, incoming: ChatRequest) -> tuple[Chat, Answer]:
        """Return the user's session with the client's id, or a new one, and its answer's state.

        A client's id of the form of a primary key creates no session: it is that of a session which
        the user may not write to, or never was one. Both are a 404.
        """
        user = owner = self.request.user
        namespace = self.namespace or ""
        store = SessionStore(owner=user, namespace=namespace, using=self.using)
        before: UUID | None = None
        try:
            last = Subquery(self._newest(OuterRef("pk"))[:1])
            session: Any = self.chat_session(incoming.id, last=last)
            if not self.may_write(session):
                raise PermissionDenied
            key, (namespace, scope, name) = session.pk, session.key
            epoch, before = session.redaction_epoch, session.last
            owner = user if self.owns(session) else store_owner(session)
            quotas.check_bytes(session.owner_id, self.body_size, self.using)
        except Http404:
            pk = parse_uuid(incoming.id)
            if incoming.trigger == REGENERATE or (pk is not None and may_be_issued(pk)):
                raise
            if incoming.is_known:
                raise Conflict(Refusal.EDITED.value) from None
            quotas.check_bytes(user.pk, self.body_size, self.using)
            self.check_room()
            quotas.check_sessions(user.pk, self.using)
            key, scope, epoch = new_id(), store.scope, 0
            name = str(key)
            try:
                store.create(name, id=key, external_id=incoming.id)
            except SessionConflictError:
                # The client sent the first message twice, or the id is one of another chat.
                record = store.sessions.find_external(incoming.id)
                if record is None:
                    raise Conflict("This id is already in use: choose another.") from None
                key, (_, scope, name) = record.id, record.key
                epoch, before = record.redaction_epoch, self._newest(key).first()
        question = None
        if incoming.trigger == REGENERATE:
            question = last_question(self._messages(key))
            if question is None:
                raise Http404
            incoming = replace(incoming, parts=(question.text,))
        elif before is not None:
            question = find_question(self._messages(key), incoming)
        chat = Chat(
            id=incoming.id,
            key=key,
            session_id=name,
            namespace=namespace,
            scope=scope,
            user=user,
            owner=owner,
            text=incoming.text,
            files=incoming.files,
            message_id=incoming.message_id,
            request=self.request,
            parts=incoming.parts,
        )
        answer = Answer(
            session=key,
            owner=user.pk,
            message_id=incoming.message_id,
            digest=_digest(incoming),
            before=before if question is None else question.before,
            epoch=epoch,
            is_known=incoming.is_known and question is None,
            repeats=question is not None,
            stored_text=None if question is None else question.text,
            refusal=None if question is None else question.refusal,
        )
        return chat, answer

    def check_room(self) -> None:
        """Reject a chat before its session is created. To be overridden."""

    def check_can_write(self) -> None:
        """Raise ``PermissionDenied`` unless the user may write to their own sessions."""
        if not self.has_permissions(
            Session(owner_id=self.request.user.pk), SessionPermission.READ, SessionPermission.CHANGE
        ):
            raise PermissionDenied

    def stored_after(self, session: UUID, message_id: str, before: UUID | None) -> Stored:
        """Return what a session has of a client's message after the given one."""
        return stored_after(self._messages(session), before, message_id)

    def loaded_id(self, answer: Answer) -> str:
        """Return the id that a stored answer has among the messages; empty if it has none."""
        key = answer_after(self._messages(answer.session), answer.before)
        return "" if key is None else str(key)

    def is_there(self, session: UUID) -> bool:
        """Return whether a session still exists."""
        return Session.objects.using(self.using).filter(pk=session).exists()

    def _newest(self, session: UUID | OuterRef) -> QuerySet[SessionMessage, UUID]:
        """Return the keys of the session's messages, newest first."""
        return self._messages(session).order_by("-id").values_list("id", flat=True)

    def _messages(self, session: UUID | OuterRef) -> MessageQuerySet:
        """Return the session's messages, except those that clients wrote."""
        rows = SessionMessage.objects.using(self.using).filter(session_id=session)
        return rows.exclude(agent__dialect__in=dialects.client_written())

    def chat_session(self, key: str, **annotations: Any) -> Session:
        """Return a session of the user, or one in which the user is a participant.

        No other: a permission to read sessions is none to chat in them.
        """
        sessions = Session.objects.using(self.using).filter(has_role(self.request.user))
        rows = self._in_namespace(sessions).annotate(**annotations)
        session = self.find_session(rows.filter, key)
        if not self.has_permissions(session, SessionPermission.READ):
            raise Http404
        return session

    def find_session(self, sessions: Callable[..., SessionQuerySet], key: str) -> Session:
        """Return a session by its primary key, or by the client's id.

        The key comes first: an id that the client chose must not hide a session in reach.
        ``sessions`` returns those in reach, and takes look-ups by a primary key.
        """
        try:
            validate_id(key, "id")
        except InvalidIdError:
            raise Http404 from None
        row = None
        if (pk := parse_uuid(key)) is not None:
            row = self.with_role(sessions(pk=pk).defer("metadata", "origin")).first()
        if row is None:
            # Clients' ids are unique per user only.
            rows = sessions().filter(owned_by_viewer(self.request.user), external_id=key)
            row = self.with_role(rows.defer("metadata", "origin")).first()
        if row is None:
            raise Http404
        return row

    def file_url(self, message: UUID, path: Path) -> str | None:
        """Return the URL of a binary at a path of a message; by default in the API of sessions."""
        try:
            url = reverse("agent_sessions_api:message-media", args=[message])
        except NoReverseMatch:
            return None
        everybody = f"&{SCOPE}={SCOPE_ALL}" if self.asks_for_everybody else ""
        return f"{url}?path={quote(json.dumps(list(path)))}{everybody}"

    def read_messages(
        self, key: str, loop: asyncio.AbstractEventLoop
    ) -> tuple[list[UIMessage], str]:
        """Return a page of messages, and a ``Link`` header to the previous page or an empty string.

        Raises ``Http404`` if the session is out of reach.
        """
        query = self.request.query_params
        session = self.find_session(self.accessible_sessions, key)
        if not self.has_permissions(session, SessionPermission.READ):
            raise Http404
        before = id_parameter(self.request, BEFORE, "a message")
        limit = page_size(self.request, message_pages.MESSAGES_PER_PAGE, _MAX_LIMIT)
        own = before is None and self.role_in(session) is not None
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


def _digest(incoming: ChatRequest) -> str:
    """Return a keyed digest, which reveals nothing of the content without the secret key."""
    digest = salted_hmac("agent_sessions.ai_sdk", "", algorithm="sha256")
    for part in incoming.parts:
        if isinstance(part, str):
            data, header = part.encode(), "text"
        else:
            data, header = part.data, f"{part.media_type}\0{part.name}"
        digest.update(f"\0{header}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()


logger = logging.getLogger(__name__)

_MAX_LIMIT = 200
