"""Which session a client means: one of its user's own, or a new one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404
from django.utils.crypto import salted_hmac

from django_agent_sessions import bridge
from django_agent_sessions.exceptions import InvalidIdError, SessionConflictError
from django_agent_sessions.ids import new_id, validate_id
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.permissions import Allowed
from django_agent_sessions.querysets import SessionQuerySet
from django_agent_sessions.rest.problems import Conflict
from django_agent_sessions.rest.streaming import StreamingAPI
from django_agent_sessions.store import SessionStore
from django_agent_sessions.transcripts import ASSISTANT_UI

from .answers import Answer
from .chat import Chat
from .requests import Incoming


class ChatSessions(StreamingAPI):
    """A view that finds sessions by what a client calls them."""

    namespace: ClassVar[str | None] = ""
    """The namespace of its sessions: two chats with one each do not meet."""

    async def run_orm(self, function: Callable[..., Any], *args: Any) -> Any:
        """Runs ORM code without blocking the loop."""
        return await bridge.run_async(lambda: function(*args), using=self.using)

    def open_chat(self, incoming: Incoming) -> tuple[Chat, Answer]:
        """Finds the session among the user's own, or makes it; and what its answer is kept as."""
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
                # Somebody sent its first message twice, or it is one of another chat.
                made = store.find_external(incoming.id)
                if made is None or made.namespace != namespace:
                    raise Conflict("This id is taken: choose another.") from None
                key, name, epoch = made.id, made.session_id, made.redaction_epoch
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
            before=self._said(key).order_by("-id").values_list("id", flat=True).first(),
            epoch=epoch,
        )
        return chat, answer

    def check_room(self) -> None:
        """Refuses a chat before its session is made. To be overridden."""

    def check_may_talk(self) -> None:
        """Looks whether the user may write in sessions of their own."""
        if not self.allows(Session(owner_id=self.request.user.pk), Allowed.READ, Allowed.CHANGE):
            raise PermissionDenied

    def said_since(self, session: UUID, before: UUID | None) -> bool:
        """Tells whether anything was said in a session since a message."""
        rows = self._said(session)
        return (rows if before is None else rows.filter(id__gt=before)).exists()

    def is_there(self, session: UUID) -> bool:
        """Tells whether a session is still there."""
        return Session.objects.using(self.using).filter(pk=session).exists()

    def _said(self, session: UUID) -> QuerySet[SessionMessage]:
        """The messages of a session, without those that clients of assistant-ui keep in it."""
        rows = SessionMessage.objects.using(self.using).filter(session_id=session)
        return rows.exclude(agent__dialect=ASSISTANT_UI)

    def own_session(self, key: str) -> Session:
        """Finds a session of the user's own; nobody talks in another's."""
        sessions = Session.objects.using(self.using).owned_by(self.request.user.pk)
        if self.namespace is not None:
            sessions = sessions.filter(namespace=self.namespace)
        session = self.find_session(sessions, key)
        if not self.allows(session, Allowed.READ):
            raise Http404
        return session

    def find_session(self, sessions: SessionQuerySet, key: str) -> Session:
        """Finds a session by what a client called it, or by its primary key."""
        try:
            validate_id(key, "id")
        except InvalidIdError:
            raise Http404 from None
        rows = sessions.defer("metadata", "origin")
        # What somebody's client called a session means nothing among those of everybody.
        row = rows.owned_by(self.request.user.pk).filter(external_id=key).first()
        if row is None and (primary := primary_key(key)) is not None:
            row = rows.filter(pk=primary).first()
        if row is None:
            raise Http404
        return row


def primary_key(value: str) -> UUID | None:
    """Reads a primary key; ``None`` if it is none."""
    try:
        return UUID(value)
    except ValueError:
        return None


def _digest(incoming: Incoming) -> str:
    """Tells messages apart; without the site's secret key it tells nothing of what they say."""
    found = salted_hmac("agent_sessions.ai_sdk", incoming.text, algorithm="sha256")
    for file in incoming.files:
        found.update(f"\0{file.media_type}\0{file.name}\0{len(file.data)}\0".encode())
        found.update(file.data)
    return found.hexdigest()
