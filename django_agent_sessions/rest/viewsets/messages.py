"""Messages: the pages of a session, and reading, showing media of and redacting one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar
from uuid import UUID

from django.http import Http404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter
from rest_framework import viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.response import Response

from django_agent_sessions import blobs, serving
from django_agent_sessions.content.blob_refs import BlobRef
from django_agent_sessions.content.paths import Path, path_from_json
from django_agent_sessions.models import Blob, Session, SessionAgent, SessionMessage
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.queries import message_pages
from django_agent_sessions.queries.message_pages import MessagePreview, MessageQuery
from django_agent_sessions.queries.search import MAX_QUERY_LENGTH, find_messages
from django_agent_sessions.rest.base import FileNegotiation, SessionAPI, ThrottleScope
from django_agent_sessions.rest.pagination import (
    AGENT,
    RAW,
    MessagePagination,
    boolean_parameter,
    search_query,
)
from django_agent_sessions.rest.problems import RangeNotSatisfiable
from django_agent_sessions.rest.redaction import (
    MessageRedactionRequest,
    RedactionSerializer,
    redaction_response,
)
from django_agent_sessions.rest.schema import (
    IF_NONE_MATCH,
    MESSAGE_PARAMETER,
    NOT_MODIFIED,
    RANGE,
    REDACT_MESSAGE,
    SCOPE_PARAMETERS,
    SESSION_PARAMETER,
    describe_view,
    operation,
    response_header,
)
from django_agent_sessions.rest.serializers.messages import (
    MessageContext,
    MessageSerializer,
    media_url,
)


class MessageListMixin(SessionAPI):
    """A page of messages; mixed into viewsets."""

    shows_authors: ClassVar[bool] = True
    """Whether messages name the users who wrote them."""

    def media_url(self) -> str:
        """Return the URL of media with ``{message}`` for a message's id."""
        return media_url(self)

    def page_response(
        self, row: Session, scope_of: Callable[[MessageContext], MessageQuery], **details: Any
    ) -> Response:
        """Return a page of messages and record the read.

        ``scope_of`` maps the representation context to the messages.
        """
        view: Any = self
        reading = MessageContext.of(
            row,
            self.using,
            media_url=self.media_url(),
            raw=boolean_parameter(self.request, RAW),
            authors=self.shows_authors,
        )
        scope = replace(scope_of(reading), eager=True)
        window = view.paginator.read(self.request, scope)
        if window.rows:
            message_pages.read_payloads(scope, window.rows)
        if window.rows:
            details |= {"first": str(window.rows[0].id), "last": str(window.rows[-1].id)}
        self.record_access(row, view="messages", messages=len(window.rows), **details)
        context = {**view.get_serializer_context(), "reading": reading}
        data = view.get_serializer(window.rows, many=True, context=context).data
        response: Response = view.get_paginated_response(data)
        return response


@describe_view(parameters=[*SCOPE_PARAMETERS, SESSION_PARAMETER], tags=["Messages"])
class ConversationViewSet(MessageListMixin, viewsets.GenericViewSet[Any]):
    """The messages of a session: of all agents in order of time, or of one agent."""

    queryset = SessionMessage.objects.none()
    serializer_class = MessageSerializer
    pagination_class = MessagePagination

    def get_throttles(self) -> list[Any]:
        """Limit searches separately, because they cost more."""
        if self.is_search:
            self.throttle_scope = ThrottleScope.SEARCH
        return super().get_throttles()

    @operation(
        "messages_list",
        {200: (MessageSerializer(many=True), "A page of messages.")},
        errors=(400, 404),
        parameters=[
            OpenApiParameter("agent", str, description="Only this agent's messages."),
            OpenApiParameter(
                "q",
                {"type": "string", "maxLength": MAX_QUERY_LENGTH},
                description="Only messages whose text contains this.",
            ),
            OpenApiParameter("raw", bool, description="Include the payloads as stored."),
        ],
    )
    def list(self, request: Any, session: UUID) -> Response:
        """List messages as parts, in either direction or around one of them."""
        row = self.session(session, SessionPermission.READ)
        return self.page_response(row, lambda reading: self._scope(row, reading))

    def _scope(self, row: Session, reading: MessageContext) -> MessageQuery:
        name, query = self.request.query_params.get(AGENT), search_query(self.request)
        only = frozenset(find_messages(row, query, using=self.using)) if query else None
        if name is None:
            return MessageQuery(row, only=only, main=True, using=self.using)
        keys = [key for key, (agent_id, _) in reading.agents.items() if agent_id == name]
        # An unknown agent has no messages.
        agent = SessionAgent(pk=keys[0] if keys else UUID(int=0))
        return MessageQuery(row, agent, only, using=self.using)


MEDIA_RESPONSES: dict[Any, Any] = {
    (200, "image/*"): (OpenApiTypes.BINARY, "An image."),
    (200, "application/octet-stream"): (OpenApiTypes.BINARY, "A file to save."),
    (206, "image/*"): (OpenApiTypes.BINARY, "A range of an image."),
    (206, "application/octet-stream"): (OpenApiTypes.BINARY, "A range of a file."),
    302: "A temporary redirect to the file's storage.",
    **NOT_MODIFIED,
}
"""The responses of views of media."""

MEDIA = [
    OpenApiParameter(
        "path",
        {"type": "string", "minLength": 2},
        required=True,
        description="The `path` of the part, as JSON.",
        examples=[OpenApiExample("An image", value='["content", 1]')],
    ),
    OpenApiParameter(
        "download", bool, description="Send it as a download, even if it can be displayed."
    ),
    IF_NONE_MATCH,
    RANGE,
    response_header("Content-Disposition", "The name of the file.", 200),
]
"""The parameters of views of media."""


class MediaAPI(SessionAPI):
    """The base of views of one message, with its media."""

    main_branch_only: ClassVar[bool] = False
    """Whether messages of other branches than the main branch are a 404."""

    def media_response(self, message: UUID) -> Any:
        """Return a file of a message, whose path the request has, and record the read."""
        request = self.request
        path, download = _path(request), boolean_parameter(request, "download")
        session = self.session_of_message(message, SessionPermission.READ)
        row = self.read_message(session, message)
        _, dialect = MessageContext.of(session, self.using).agent_of(row)
        part = dialect.binary_at(row.payload, path)
        if part is None:
            raise Http404
        self.record_access(session, message, view="media")
        content, media_type = part
        source = self._source(session, content)
        try:
            return serving.serve_media(
                request._request, source, media_type, str(message), download=download
            )
        except serving.UnsatisfiableRangeError as error:
            raise RangeNotSatisfiable(error.content_range) from None

    def session_of_message(self, message: UUID, *needed: SessionPermission) -> Session:
        """Return the session of a message; raise ``Http404`` if it is out of reach."""
        return self.session_of(SessionMessage.objects.filter(pk=message), *needed)

    def read_message(self, session: Session, key: UUID) -> MessagePreview:
        """Return a message of a session, with its payload."""
        only, main = frozenset([key]), self.main_branch_only
        scope = MessageQuery(session, only=only, main=main, eager=True, using=self.using)
        rows = message_pages.first_page(scope, count=1).rows
        if rows:
            message_pages.read_payloads(scope, rows, whole=True)
        if not rows:
            raise Http404
        return rows[0]

    def _source(self, session: Session, content: bytes | BlobRef) -> bytes | Blob:
        if isinstance(content, bytes):
            return content
        return blobs.find_blob(self.using, session.pk, content)


@describe_view(parameters=[*SCOPE_PARAMETERS, MESSAGE_PARAMETER], tags=["Messages"])
class MessageViewSet(MediaAPI, viewsets.GenericViewSet[Any]):
    """One message of a session that the user reaches."""

    queryset = SessionMessage.objects.none()
    serializer_class = MessageSerializer
    pagination_class = None
    lookup_url_kwarg = "message"
    lookup_value_converter = "agent_sessions_uuid"

    @operation(
        "messages_retrieve",
        {200: (MessageSerializer, "The message.")},
        errors=(400, 404),
        parameters=[OpenApiParameter("raw", bool, description="Include the payload as stored.")],
    )
    def retrieve(self, request: Any, message: UUID) -> Response:
        """Return a message; a large one is not truncated."""
        session = self.session_of_message(message, SessionPermission.READ)
        raw = boolean_parameter(request, RAW)
        row = self.read_message(session, message)
        self.record_access(session, message, view="message")
        return self._response(session, row, raw=raw)

    @operation("messages_media", MEDIA_RESPONSES, errors=(400, 404, 416, 503), parameters=MEDIA)
    @action(detail=True, methods=["get"], content_negotiation_class=FileNegotiation)
    def media(self, request: Any, message: UUID) -> Any:
        """Return an image, document, recording or video of a message."""
        return self.media_response(message)

    @operation(
        "messages_redact",
        {200: (RedactionSerializer, "The result, or the preview.")},
        errors=(400, 404, 409, 413, 422, 503),
        tags=["Redaction"],
        request=MessageRedactionRequest,
        examples=REDACT_MESSAGE,
    )
    @action(detail=True, methods=["post"], throttle_scope=ThrottleScope.REDACT)
    def redact(self, request: Any, message: UUID) -> Response:
        """Redact a message, one part, a range of a text, or the findings in it.

        The content is replaced by a mask permanently. The conversation stays valid for its SDK.
        """
        session = self.session_of_message(message, SessionPermission.READ, SessionPermission.REDACT)
        return redaction_response(
            self, session, MessageRedactionRequest, lambda given: given.scope(message)
        )

    def _response(self, session: Session, row: MessagePreview, *, raw: bool) -> Response:
        reading = MessageContext.of(session, self.using, media_url=media_url(self), raw=raw)
        context = {**self.get_serializer_context(), "reading": reading}
        return Response(self.get_serializer(row, context=context).data)


def _path(request: Any) -> Path:
    hint = "Must be the `path` of the part, as JSON."
    try:
        return path_from_json(request.query_params.get("path", ""))
    except ValueError:
        raise ValidationError({"path": [hint]}) from None
