"""The views of threads and their messages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar
from uuid import UUID

from django.http import Http404
from rest_framework import status
from rest_framework.exceptions import ValidationError
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.response import Response

from django_agent_sessions import conf
from django_agent_sessions.content.dialects import ASSISTANT_UI, displayable
from django_agent_sessions.content.masking.on_write import mask_on_write
from django_agent_sessions.governance import quotas, session_deletion
from django_agent_sessions.models import Session, SessionAgent
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.models.querysets import MessageQuerySet
from django_agent_sessions.models.roles import store_owner
from django_agent_sessions.rest.access import SCOPE_OWN
from django_agent_sessions.rest.base import SafeJSONRenderer, SessionAPI
from django_agent_sessions.rest.converters import parse_uuid
from django_agent_sessions.rest.pagination import page_size
from django_agent_sessions.rest.viewsets.feedback import RatingAPI
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.ids import SessionKey, new_id
from django_agent_sessions.values.records import SessionRecord

from . import CLIENT_AGENT_ID
from .thread_lookup import find_by_ids, thread_messages
from .thread_pages import (
    SERVER_FORMAT,
    client_messages,
    find_server_message,
    message_page,
    oldest_message,
    server_page,
)
from .thread_writer import ThreadWriter
from .threads import (
    FORMAT_PATTERN,
    ContentRequest,
    DeletionRequest,
    MessageRequest,
    ThreadFeedbackRequest,
    ThreadRequest,
    TitleRequest,
    first_messages,
    metadata_upto,
    represent_thread,
    set_title,
    shown_title,
    title_of_messages,
)

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


class AcceptNegotiation(DefaultContentNegotiation):
    """Content negotiation by ``Accept`` only: ``format`` is the format of messages."""

    def filter_renderers(self, renderers: Any, format: Any) -> Any:  # noqa: A002 - overridden
        return list(renderers)


class AssistantUIView(SessionAPI):
    """The base of the views: a thread is a session of the user, or shared with the user."""

    schema: Any = None
    # Versions of the client add parameters of their own.
    rejects_unknown_parameters = False
    content_negotiation_class: Any = AcceptNegotiation

    @cached_property
    def asked_scope(self) -> str:
        """Always the default: the client lists the user's own threads only."""
        return SCOPE_OWN

    def store_of(self, session: Session | None = None) -> SessionStore:
        """Return the owner's store for a session, or the user's for a new one."""
        key = SessionKey(self.namespace or "", "", "") if session is None else session.key
        owner = self.request.user if session is None else store_owner(session)
        return SessionStore(owner=owner, namespace=key.namespace, scope=key.scope, using=self.using)

    def writable_session(self, key: UUID) -> Session:
        """Return a session to which the user may add messages; raise ``Http404`` otherwise."""
        session = self.session(key)
        if not self.may_write(session):
            raise Http404
        return session


class ThreadsView(AssistantUIView):
    """The threads of the user."""

    page_size: ClassVar[int] = 20
    max_page_size: ClassVar[int] = 100

    def get(self, request: Any) -> Response:
        """List the archived threads or the others, most recently active first."""
        value = request.query_params.get("is_archived", "false")
        if value not in _BOOLEANS:
            raise ValidationError({"is_archived": ["Must be true or false."]})
        rows = self.listed_sessions().defer("origin", "metadata").with_display_title()
        rows = rows.filter(archived_at__isnull=not _BOOLEANS[value]).recent_first()
        if after := request.query_params.get("after"):
            last = self.session(parse_uuid(after))
            rows = rows.less_recent_than(last.last_activity_at, last.pk)
        count = page_size(self.request, self.page_size, self.max_page_size)
        room = conf.get_settings().MAX_ANSWER_BYTES // count
        shown: Any = rows.annotate(listed_metadata=metadata_upto(room))[:count]
        threads = [represent_thread(row, row.listed_metadata or {}) for row in shown]
        return Response({"threads": threads})

    def post(self, request: Any) -> Response:
        """Create a thread, or return the user's thread with this ``external_id``."""
        fields = self.read_body(ThreadRequest)
        store = self.store_of()
        changes = _changes(fields)
        external = fields.get("external_id")
        record, created = self._create(store, external, changes)
        updates: Any = {key: changes[key] for key in changes if not created or key == "archived"}
        if not created:
            self.session(record.id, SessionPermission.CHANGE if updates else SessionPermission.READ)
        if updates:
            store.sessions.update(record, **updates)
        code = status.HTTP_201_CREATED if created else status.HTTP_200_OK
        return Response({"thread_id": str(record.id)}, status=code)

    def _create(
        self, store: SessionStore, external: str | None, changes: Mapping[str, Any]
    ) -> tuple[SessionRecord, bool]:
        initial = {key: changes[key] for key in ("title", "metadata") if key in changes}
        if external is None or store.sessions.find_external(external) is None:
            quotas.check_sessions(self.request.user.pk, self.using)
        if external is None:
            key = new_id()
            return store.create(str(key), id=key, **initial), True
        return store.sessions.open_external(external, **initial)


class ThreadView(AssistantUIView):
    """One thread."""

    def get(self, request: Any, thread: UUID) -> Response:
        rows = self.accessible_sessions(pk=thread).defer("origin").with_display_title()
        row = self.with_role(rows).first()
        if row is None or not self.has_permissions(row, SessionPermission.READ):
            raise Http404
        return Response({"thread": represent_thread(row, row.metadata)})

    def put(self, request: Any, thread: UUID) -> Response:
        """Change the title or the metadata of a thread, or archive or unarchive it."""
        row = self.session(thread, SessionPermission.CHANGE)
        changes: Any = _changes(self.read_body(ThreadRequest))
        self.store_of(row).sessions.update(row, **changes)
        return Response(status=status.HTTP_204_NO_CONTENT)

    def delete(self, request: Any, thread: UUID) -> Response:
        """Delete a thread with all its messages."""
        row = self.session(thread, SessionPermission.DELETE)
        if not session_deletion.delete(
            row, reason=self.read_reason(), actor=request.user, via="api", using=self.using
        ):
            raise Http404
        return Response(status=status.HTTP_204_NO_CONTENT)


class MessagesView(AssistantUIView):
    """The messages of a thread."""

    page_size: ClassVar[int] = 200
    max_page_size: ClassVar[int] = 200

    def get(self, request: Any, thread: UUID) -> Response:
        """Return the client's messages, then the messages that they continue; newest first."""
        row = self.session(thread, SessionPermission.READ)
        name = request.query_params.get("format") or None
        if name is not None and not re.match(FORMAT_PATTERN, name):
            raise ValidationError({"format": ["Must be the name of a format."]})
        after = request.query_params.get("after") or None
        limit = page_size(self.request, self.page_size, self.max_page_size)
        agents = SessionAgent.objects.using(self.using).filter(
            session=row, agent_id=CLIENT_AGENT_ID
        )
        agent = agents.filter(dialect=ASSISTANT_UI).only("pk").first()
        rows = client_messages(None if agent is None else agent.pk, self.using)
        messages = message_page(rows, limit=limit, after=after, name=name)
        with_history = name in (None, SERVER_FORMAT)
        if messages is None:
            key = find_server_message(row, str(after), self.using)
            if key is None:
                raise Http404
            messages = self.server_messages(row, limit=limit, before=key) if with_history else []
        elif with_history and len(messages) < limit:
            messages = [*messages, *self._history(row, rows, limit - len(messages))]
        return Response({"messages": messages})

    def server_messages(
        self, session: Session, *, limit: int, before: UUID | None = None, last: UUID | None = None
    ) -> list[dict[str, Any]]:
        """Return messages of server-side agents before the client's first one, newest first."""
        return server_page(session, limit=limit, before=before, last=last)

    def _history(self, session: Session, rows: MessageQuerySet, limit: int) -> list[dict[str, Any]]:
        """Return the messages that the oldest of the client's messages continues."""
        first = oldest_message(rows)
        if first is None:
            return self.server_messages(session, limit=limit)
        key, parent = first
        last = None if parent is None else find_server_message(session, parent, self.using)
        if last is None:
            return []
        return self.server_messages(session, limit=limit, before=key, last=last)

    def post(self, request: Any, thread: UUID) -> Response:
        """Store a message; one that is sent again is stored once."""
        row = self.writable_session(thread)
        fields = self.read_body(MessageRequest)
        quotas.check_bytes(row.owner_id, self.body_size, self.using)
        keeper = ThreadWriter(
            self.store_of(row),
            row,
            may_replace=self.has_permissions(row, SessionPermission.CHANGE),
            author="" if self.owns(row) else str(request.user.pk),
        )
        message_id = keeper.keep(
            fields.get("parent_id"),
            fields["format"],
            fields["content"],
            external_id=fields.get("external_id"),
            parent_external_id=fields.get("parent_external_id"),
        )
        return Response({"message_id": message_id})

    def delete(self, request: Any, thread: UUID) -> Response:
        """Delete messages of the client; those after them get their parents."""
        row = self.session(thread, SessionPermission.CHANGE)
        names = self.read_body(DeletionRequest)["message_ids"]
        ThreadWriter(self.store_of(row), row, may_replace=True).delete(names)
        return Response(status=status.HTTP_204_NO_CONTENT)


class MessageView(AssistantUIView):
    """One message of the client."""

    def put(self, request: Any, thread: UUID, message: str) -> Response:
        """Replace the content of a message; a redacted message is not changed."""
        row = self.session(thread, SessionPermission.CHANGE)
        content = self.read_body(ContentRequest)["content"]
        quotas.check_bytes(row.owner_id, self.body_size, self.using)
        ThreadWriter(self.store_of(row), row, may_replace=True).change(message, content)
        return Response(status=status.HTTP_204_NO_CONTENT)


class FeedbackView(RatingAPI, AssistantUIView):
    """The user's rating of a message of the client or of the server."""

    def post(self, request: Any, thread: UUID, message: str) -> Response:
        """Rate a message, in place of an earlier rating by the user."""
        row = self.session(thread, SessionPermission.READ, SessionPermission.RATE)
        fields = self.read_body(ThreadFeedbackRequest)
        value = 1 if fields["type"] == "positive" else -1
        key = self._message(row, message)
        saved = self.rate(row, key, value, fields.get("comment") or "")
        body = {"feedback_id": str(saved.id), "type": fields["type"], "comment": saved.comment}
        return Response(body)

    def _message(self, session: Session, name: str) -> UUID:
        key = find_server_message(session, name, self.using)
        if key is None:
            found = find_by_ids(thread_messages(session.pk, self.using), name)
            key = found[0].pk if found else None
        if key is None:
            raise Http404
        return key


class PlainRenderer(BaseRenderer):
    """A renderer of text as it is, and of errors as JSON."""

    media_type = "text/plain"
    format = "txt"
    charset = "utf-8"

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        if isinstance(data, str):
            return data.encode()
        return SafeJSONRenderer().render(data, None, renderer_context)


class TitleView(AssistantUIView):
    """The title of a thread; the only run of assistant-ui that is implemented."""

    renderer_classes: Any = [PlainRenderer, SafeJSONRenderer]

    def post(self, request: Any) -> Response:
        """Return the title of a thread, which :meth:`title` may make if there is none."""
        fields = self.read_body(TitleRequest)
        key = parse_uuid(fields["thread_id"])
        row = self.session(key, SessionPermission.READ, SessionPermission.CHANGE)
        title = displayable(row.title) or self._make_title(row, fields["messages"])
        return Response(title, content_type="text/plain; charset=utf-8")

    def title(self, messages: Any) -> str:
        """Return a title to store for messages ``[{"role": …, "content": [{"type": "text", …}]}]``.

        They have no redacted content, but any user's or model's text. If nothing is stored yet,
        they come from the client. A later redaction in the session empties the title. An empty
        string, which is the default, stores none: the title is the first words of the first user.
        """
        return ""

    def _make_title(self, row: Session, sent: Any) -> str:
        messages: Any = first_messages(row, self.using)
        copy: Any = []
        if not any(message["role"] == "user" for message in messages):
            # The client may ask before it has stored them. After a redaction its copy is not used,
            # because it still contains the redacted text.
            messages = copy = [] if row.redaction_epoch else mask_on_write(sent, free=True)
        if title := self.title(messages):
            return set_title(self.store_of(row), row, title)
        rows = Session.objects.using(self.using).filter(pk=row.pk).with_display_title()
        current = rows.first()
        return (shown_title(current) if current else "") or title_of_messages(copy)


def _changes(fields: Mapping[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if "title" in fields:
        changes["title"] = fields["title"] or ""
    if "metadata" in fields:
        changes["metadata"] = fields["metadata"]
    if "is_archived" in fields:
        changes["archived"] = fields["is_archived"]
    return changes
