"""Finding or creating the user's session that a client names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404
from django.utils.crypto import salted_hmac

from django_agent_sessions.content.dialects import ASSISTANT_UI
from django_agent_sessions.db import bridge
from django_agent_sessions.exceptions import InvalidIdError, SessionConflictError
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.models.querysets import SessionQuerySet
from django_agent_sessions.rest.problems import Conflict
from django_agent_sessions.rest.streaming import StreamingAPI
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.ids import new_id, validate_id

from .answers import Answer
from .chat import Chat
from .chat_requests import ChatRequest


class ChatSessionMixin(StreamingAPI):
    """A view that finds sessions by the client's ids."""

    namespace: ClassVar[str | None] = ""
    """The namespace of its sessions, which separates chats from each other."""

    async def run_orm(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run ORM code without blocking the event loop."""
        return await bridge.run_async(lambda: function(*args), using=self.using)

    def open_chat(self, incoming: ChatRequest) -> tuple[Chat, Answer]:
        """Return the user's session with the client's id, or a new one, and its answer's state."""
        user = self.request.user
        namespace = self.namespace or ""
        store = SessionStore(owner=user, namespace=namespace, using=self.using)
        try:
            session = self.own_session(incoming.id)
            key, name, namespace = session.pk, session.session_id, session.namespace
            epoch = session.redaction_epoch
        except Http404:
            self.check_room()
            key, epoch = new_id(), 0
            name = str(key)
            try:
                store.create(name, id=key, external_id=incoming.id)
            except SessionConflictError:
                # The client sent the first message twice, or the id is one of another chat.
                record = store.sessions.find_external(incoming.id)
                if record is None or record.namespace != namespace:
                    raise Conflict("This id is already in use: choose another.") from None
                key, name, epoch = record.id, record.session_id, record.redaction_epoch
        chat = Chat(
            id=incoming.id,
            key=key,
            session_id=name,
            namespace=namespace,
            user=user,
            text=incoming.text,
            files=incoming.files,
            message_id=incoming.message_id,
            request=self.request,
        )
        answer = Answer(
            session=key,
            owner=user.pk,
            message_id=incoming.message_id,
            digest=_digest(incoming),
            before=self._messages(key).order_by("-id").values_list("id", flat=True).first(),
            epoch=epoch,
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

    def has_messages_after(self, session: UUID, before: UUID | None) -> bool:
        """Return whether a session has messages after the given one."""
        rows = self._messages(session)
        return (rows if before is None else rows.filter(id__gt=before)).exists()

    def is_there(self, session: UUID) -> bool:
        """Return whether a session still exists."""
        return Session.objects.using(self.using).filter(pk=session).exists()

    def _messages(self, session: UUID) -> QuerySet[SessionMessage]:
        """Return the session's messages, except those that clients of assistant-ui keep."""
        rows = SessionMessage.objects.using(self.using).filter(session_id=session)
        return rows.exclude(agent__dialect=ASSISTANT_UI)

    def own_session(self, key: str) -> Session:
        """Return a session of the user, because users chat in their own sessions only."""
        sessions = Session.objects.using(self.using).owned_by(self.request.user.pk)
        if self.namespace is not None:
            sessions = sessions.filter(namespace=self.namespace)
        session = self.find_session(sessions, key)
        if not self.has_permissions(session, SessionPermission.READ):
            raise Http404
        return session

    def find_session(self, sessions: SessionQuerySet, key: str) -> Session:
        """Return a session by the client's id, or by its primary key."""
        try:
            validate_id(key, "id")
        except InvalidIdError:
            raise Http404 from None
        rows = sessions.defer("metadata", "origin")
        # Clients' ids are unique per user only.
        row = rows.owned_by(self.request.user.pk).filter(external_id=key).first()
        if row is None and (pk := parse_uuid(key)) is not None:
            row = rows.filter(pk=pk).first()
        if row is None:
            raise Http404
        return row


def parse_uuid(value: str) -> UUID | None:
    """Parse a primary key; return ``None`` if the text is not a UUID."""
    try:
        return UUID(value)
    except ValueError:
        return None


def _digest(incoming: ChatRequest) -> str:
    """Return a keyed digest, which reveals nothing of the content without the secret key."""
    digest = salted_hmac("agent_sessions.ai_sdk", incoming.text, algorithm="sha256")
    for file in incoming.files:
        digest.update(f"\0{file.media_type}\0{file.name}\0{len(file.data)}\0".encode())
        digest.update(file.data)
    return digest.hexdigest()
