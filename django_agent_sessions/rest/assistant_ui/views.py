"""Threads and their messages, as assistant-ui's client asks for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import UUID

from django.http import Http404
from rest_framework import status
from rest_framework.exceptions import ValidationError
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.response import Response

from django_agent_sessions.ids import new_id
from django_agent_sessions.models import Session, SessionAgent
from django_agent_sessions.permissions import Allowed
from django_agent_sessions.querysets import MessageQuerySet
from django_agent_sessions.records import SessionRecord
from django_agent_sessions.rest.access import uuid_of
from django_agent_sessions.rest.base import SessionAPI
from django_agent_sessions.rest.problems import Conflict
from django_agent_sessions.rest.renderers import SafeJSONRenderer
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.cleaning import clean
from django_agent_sessions.transcripts import ASSISTANT_UI

from . import AGENT_ID, history
from .keeping import Keeper
from .pages import client_messages, first_of, page
from .serializers import (
    FORMAT,
    ContentRequest,
    MessageRequest,
    ThreadRequest,
    TitleRequest,
    shown_thread,
)
from .titles import beginning_of, first_words, give_title

_YES_OR_NO = {"true": True, "1": True, "false": False, "0": False}


class Negotiation(DefaultContentNegotiation):
    """Chooses a renderer by ``Accept`` alone: ``format`` is that of the messages."""

    def filter_renderers(self, renderers: Any, format: Any) -> Any:  # noqa: A002 - its name
        """Leaves none out."""
        return list(renderers)


class AssistantUIView(SessionAPI):
    """What the views share: a thread is a session of the user's own, whoever else may read it."""

    schema: Any = None
    content_negotiation_class: Any = Negotiation

    @property
    def reaches_everybody(self) -> bool:
        """The client knows one's own threads only."""
        return False

    def store_of(self, session: Session | None = None) -> SessionStore:
        """Makes the store that writes for the user."""
        namespace = self.namespace or "" if session is None else session.namespace
        return SessionStore(owner=self.request.user, namespace=namespace, using=self.using)

    def limit(self, default: int, most: int) -> int:
        """Reads how many rows are asked for."""
        given = self.request.query_params.get("limit")
        if given is None:
            return default
        if not re.fullmatch(r"[0-9]{1,6}", given) or not 1 <= int(given) <= most:
            raise ValidationError({"limit": [f"Give a number from 1 to {most}."]})
        return int(given)


class ThreadsView(AssistantUIView):
    """All threads of the user."""

    page_size: ClassVar[int] = 20
    max_page_size: ClassVar[int] = 100

    def get(self, request: Any) -> Response:
        """Lists threads, the most recently active first: those that are archived, or the others."""
        asked = request.query_params.get("is_archived", "false")
        if asked not in _YES_OR_NO:
            raise ValidationError({"is_archived": ["Give true or false."]})
        rows = self.reachable_sessions().defer("origin")
        rows = rows.filter(archived_at__isnull=not _YES_OR_NO[asked]).recent_first()
        if after := request.query_params.get("after"):
            last = self.session(after)
            rows = rows.less_recent_than(last.last_activity_at, last.pk)
        count = self.limit(self.page_size, self.max_page_size)
        return Response({"threads": [shown_thread(row) for row in rows[:count]]})

    def post(self, request: Any) -> Response:
        """Makes a thread, or finds the user's thread of this ``external_id``."""
        given = ThreadRequest(data=request.data)
        given.is_valid(raise_exception=True)
        fields = dict(given.validated_data)
        store = self.store_of()
        changes = _changes(fields)
        external = fields.get("external_id")
        made, new = self._made(store, external, changes)
        later: Any = {key: changes[key] for key in changes if not new or key == "archived"}
        if not new:
            self.session(made.id, Allowed.CHANGE if later else Allowed.READ)
        if later:
            store.update(made.id, **later)
        code = status.HTTP_201_CREATED if new else status.HTTP_200_OK
        return Response({"thread_id": str(made.id)}, status=code)

    def _made(
        self, store: SessionStore, external: str | None, changes: Mapping[str, Any]
    ) -> tuple[SessionRecord, bool]:
        beginning = {key: changes[key] for key in ("title", "metadata") if key in changes}
        if external is None:
            key = new_id()
            return store.create(str(key), id=key, **beginning), True
        made, new = store.open_external(external, **beginning)
        if not new and self.namespace is not None and made.namespace != self.namespace:
            raise Conflict("This external_id is that of a session elsewhere. Choose another.")
        return made, new


class ThreadView(AssistantUIView):
    """One thread."""

    def get(self, request: Any, thread: str) -> Response:
        """Gives a thread."""
        row = self.reachable_sessions().filter(pk=uuid_of(thread)).defer("origin").first()
        if row is None or not self.allows(row, Allowed.READ):
            raise Http404
        return Response({"thread": shown_thread(row)})

    def put(self, request: Any, thread: str) -> Response:
        """Renames a thread, notes something about it, puts it away or takes it out again."""
        row = self.session(thread, Allowed.CHANGE)
        given = ThreadRequest(data=request.data)
        given.is_valid(raise_exception=True)
        changes: Any = _changes(given.validated_data)
        self.store_of(row).update(row.pk, **changes)
        return Response(status=status.HTTP_204_NO_CONTENT)

    def delete(self, request: Any, thread: str) -> Response:
        """Deletes a thread with all that was said in it."""
        row = self.session(thread, Allowed.DELETE)
        if not self.store_of(row).delete(row.session_id):
            raise Http404
        return Response(status=status.HTTP_204_NO_CONTENT)


class MessagesView(AssistantUIView):
    """The messages of a thread."""

    page_size: ClassVar[int] = 200
    max_page_size: ClassVar[int] = 200

    def get(self, request: Any, thread: str) -> Response:
        """Gives what the client stored, and before it what it went on from; the newest first."""
        row = self.session(thread, Allowed.READ)
        name = request.query_params.get("format") or None
        if name is not None and not re.match(FORMAT, name):
            raise ValidationError({"format": ["There is no such format."]})
        after = request.query_params.get("after") or None
        limit = self.limit(self.page_size, self.max_page_size)
        agents = SessionAgent.objects.using(self.using).filter(session=row, agent_id=AGENT_ID)
        agent = agents.filter(dialect=ASSISTANT_UI).only("pk").first()
        rows = client_messages(None if agent is None else agent.pk, self.using)
        found = page(rows, limit=limit, after=after, name=name)
        earlier = name in (None, history.FORMAT)
        if found is None:
            key = history.server_message(row, str(after), self.using)
            if key is None:
                raise Http404
            found = self.server_messages(row, limit=limit, before=key) if earlier else []
        elif earlier and len(found) < limit:
            found = [*found, *self._before(row, rows, limit - len(found))]
        return Response({"messages": found})

    def server_messages(
        self, session: Session, *, limit: int, before: UUID | None = None, last: UUID | None = None
    ) -> list[dict[str, Any]]:
        """Gives what the server's agents said before the client stored anything."""
        return history.server_page(session, limit=limit, before=before, last=last)

    def _before(self, session: Session, rows: MessageQuerySet, limit: int) -> list[dict[str, Any]]:
        """Finds what the oldest of the client's messages goes on from."""
        beginning = first_of(rows)
        if beginning is None:
            return self.server_messages(session, limit=limit)
        key, parent = beginning
        last = None if parent is None else history.server_message(session, parent, self.using)
        if last is None:
            return []
        return self.server_messages(session, limit=limit, before=key, last=last)

    def post(self, request: Any, thread: str) -> Response:
        """Stores a message, or finds it: a message that is sent again is stored once."""
        row = self.session(thread, Allowed.CHANGE)
        given = MessageRequest(data=request.data)
        given.is_valid(raise_exception=True)
        fields = given.validated_data
        keeper = Keeper(self.store_of(row), row)
        kept = keeper.keep(fields.get("parent_id"), fields["format"], fields["content"])
        return Response({"message_id": kept})


class MessageView(AssistantUIView):
    """One message that the client stored."""

    def put(self, request: Any, thread: str, message: str) -> Response:
        """Changes what a message says; what was redacted stays redacted."""
        row = self.session(thread, Allowed.CHANGE)
        given = ContentRequest(data=request.data)
        given.is_valid(raise_exception=True)
        Keeper(self.store_of(row), row).change(message, given.validated_data["content"])
        return Response(status=status.HTTP_204_NO_CONTENT)


class PlainRenderer(BaseRenderer):
    """Renders text; an error as JSON."""

    media_type = "text/plain"
    format = "txt"
    charset = "utf-8"

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        """Renders an answer."""
        if isinstance(data, str):
            return data.encode()
        return SafeJSONRenderer().render(data, None, renderer_context)


class TitleView(AssistantUIView):
    """A title for a thread; the only run of assistant-ui's own that is answered."""

    renderer_classes: Any = [PlainRenderer, SafeJSONRenderer]

    def post(self, request: Any) -> Response:
        """Gives a thread a title, if it has none, and answers with it."""
        given = TitleRequest(data=request.data)
        given.is_valid(raise_exception=True)
        key = given.validated_data["thread_id"]
        row = self.session(key, Allowed.READ, Allowed.CHANGE)
        title = row.title or self._made(row, given.validated_data["messages"])
        return Response(title, content_type="text/plain; charset=utf-8")

    def title(self, messages: Any) -> str:
        """Makes a title."""
        return first_words(messages)

    def _made(self, row: Session, sent: Any) -> str:
        messages: Any = beginning_of(row, self.using)
        if not any(one["role"] == "user" for one in messages):
            # The client asks while it stores them. It has in memory what was redacted.
            messages = [] if row.redaction_epoch else clean(sent, free=True)
        title = self.title(messages)
        return give_title(self.store_of(row), row, title) if title else ""


def _changes(fields: Mapping[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if "title" in fields:
        changes["title"] = fields["title"] or ""
    if "metadata" in fields:
        changes["metadata"] = fields["metadata"]
    if "is_archived" in fields:
        changes["archived"] = fields["is_archived"]
    return changes
