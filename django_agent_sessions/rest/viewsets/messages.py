"""A single message: reading it, its media and its original, and redacting it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import Http404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse
from rest_framework import viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.response import Response

from django_agent_sessions import audit, blobs, serving, windows
from django_agent_sessions.models import AuditEvent, Blob, Session, SessionMessage
from django_agent_sessions.permissions import Allowed
from django_agent_sessions.redaction.originals import original_kept_until
from django_agent_sessions.references import BlobRef, Path
from django_agent_sessions.rest import throttles
from django_agent_sessions.rest.access import uuid_of
from django_agent_sessions.rest.base import SessionAPI
from django_agent_sessions.rest.examples import ORIGINAL, REDACT_MESSAGE
from django_agent_sessions.rest.media import media_url
from django_agent_sessions.rest.negotiation import FileNegotiation
from django_agent_sessions.rest.pagination import RAW
from django_agent_sessions.rest.problems import RangeNotSatisfiable
from django_agent_sessions.rest.queries import flag_of
from django_agent_sessions.rest.redacting import redacted
from django_agent_sessions.rest.schema import (
    IF_NONE_MATCH,
    MESSAGE_ID,
    RANGE,
    SCOPED,
    UNCHANGED,
    answer,
    described,
    headed,
    problems,
)
from django_agent_sessions.rest.serializers.messages import MessageSerializer, Reading
from django_agent_sessions.rest.serializers.redaction import (
    MessageRedactionRequest,
    ReasonRequest,
    RedactionSerializer,
)
from django_agent_sessions.transcripts.blocks import binary, path_of
from django_agent_sessions.windows import Row, Scope


@described(parameters=[*SCOPED, MESSAGE_ID], tags=["Messages"])
class MessageViewSet(SessionAPI, viewsets.GenericViewSet[Any]):
    """One message of a session that the user reaches."""

    queryset = SessionMessage.objects.none()
    serializer_class = MessageSerializer
    pagination_class = None
    lookup_url_kwarg = "message"
    lookup_value_converter = "str"

    @described(
        operation_id="messages_retrieve",
        parameters=[OpenApiParameter("raw", bool, description="Include the payload as stored.")],
        responses={200: answer(MessageSerializer, "The message."), **problems(400, 404)},
    )
    def retrieve(self, request: Any, message: str) -> Response:
        """Return a message; a large one is not truncated."""
        session, key = self._find(message, Allowed.READ)
        raw = flag_of(request, RAW)
        row = self._read(session, key)
        self.record_reading(session, key, view="message")
        return self._response(session, row, raw=raw)

    @described(
        operation_id="messages_media",
        parameters=[
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
            headed("Content-Disposition", "The name of the file.", 200),
        ],
        responses={
            (200, "image/*"): answer(OpenApiTypes.BINARY, "An image."),
            (200, "application/octet-stream"): answer(OpenApiTypes.BINARY, "A file to save."),
            (206, "image/*"): answer(OpenApiTypes.BINARY, "A range of an image."),
            (206, "application/octet-stream"): answer(OpenApiTypes.BINARY, "A range of a file."),
            302: OpenApiResponse(description="A temporary redirect to the file's storage."),
            **UNCHANGED,
            **problems(400, 404, 416, 503),
        },
    )
    @action(detail=True, methods=["get"], content_negotiation_class=FileNegotiation)
    def media(self, request: Any, message: str) -> Any:
        """Return an image, document, recording or video of a message."""
        path = _path(request)
        session, key = self._find(message, Allowed.READ)
        row = self._read(session, key)
        reading = Reading.of(session, self.using)
        dialect = reading.agents.get(row.agent_id, ("", ""))[1]
        part = binary(dialect, row.payload, path)
        if part is None:
            raise Http404
        self.record_reading(session, key, view="media")
        download = request.query_params.get("download") == "true"
        content, media_type = part
        source = self._source(session, content)
        try:
            return serving.media(request._request, source, media_type, str(key), download=download)
        except serving.UnsatisfiableRangeError as error:
            raise RangeNotSatisfiable(error.content_range) from None

    @described(
        operation_id="messages_redact",
        tags=["Redaction"],
        request=MessageRedactionRequest,
        responses={
            200: answer(RedactionSerializer, "The result, or the preview."),
            **problems(400, 404, 409, 413, 503),
        },
        examples=REDACT_MESSAGE,
    )
    @action(detail=True, methods=["post"], throttle_scope=throttles.REDACT)
    def redact(self, request: Any, message: str) -> Response:
        """Redact a message, one part, a range of a text, or the findings in it.

        The content is replaced by a mask permanently. The conversation stays valid for its SDK.
        """
        session, key = self._find(message, Allowed.READ, Allowed.REDACT)
        return redacted(self, session, MessageRedactionRequest, lambda given: given.scope(key))

    @described(
        operation_id="messages_original",
        tags=["Redaction"],
        request=ReasonRequest,
        responses={
            200: answer(MessageSerializer, "The original message."),
            **problems(400, 404, 413),
        },
        examples=ORIGINAL,
    )
    @action(detail=True, methods=["post"])
    def original(self, request: Any, message: str) -> Response:
        """Return the original of a redacted message, if it was kept.

        Requires the permission ``view_original`` and a reason, also from the owner. The access is
        recorded before the original is returned.
        """
        session, key = self._find(message, Allowed.READ, Allowed.VIEW_ORIGINAL)
        serializer = ReasonRequest(data=request.data)
        serializer.is_valid(raise_exception=True)
        if original_kept_until(session.pk, key, using=self.using) is None:
            raise Http404
        audit.record(
            AuditEvent.Action.ORIGINAL_VIEWED,
            session=session.pk,
            target=key,
            actor=request.user,
            reason=serializer.validated_data["reason"],
            details={"via": "api"},
            using=self.using,
        )
        row = self._read(session, key)
        rows = SessionMessage.objects.using(self.using).filter(pk=key)
        row.payload = rows.values_list("message", flat=True).first()
        # Without URLs: the view of media serves the redacted version only.
        return self._response(session, row, media=False)

    def _find(self, message: str, *needed: Allowed) -> tuple[Session, UUID]:
        """Return the session and key of a message; raise ``Http404`` if it is out of reach."""
        key = uuid_of(message)
        row = (
            self.reachable_sessions()
            .defer("metadata", "origin")
            # Filtered by the message, not only by a name in the URL: it decides the session.
            .filter(pk__in=SessionMessage.objects.filter(pk=key).values("session"))
            .first()
        )
        if row is None or not self.allows(row, *needed):
            raise Http404
        return row, key

    def _read(self, session: Session, key: UUID) -> Row:
        scope = Scope(session, only=frozenset([key]))
        rows = windows.beginning(scope, count=1).rows
        if rows:
            windows.fill(scope, rows, whole=True)
        if not rows:
            raise Http404
        return rows[0]

    def _source(self, session: Session, content: bytes | BlobRef) -> bytes | Blob:
        if isinstance(content, bytes):
            return content
        return blobs.find_blob(self.using, session.pk, content)

    def _response(
        self, session: Session, row: Row, *, raw: bool = False, media: bool = True
    ) -> Response:
        url = media_url(self) if media else ""
        reading = Reading.of(session, self.using, media_url=url, raw=raw)
        context = {**self.get_serializer_context(), "reading": reading}
        return Response(self.get_serializer(row, context=context).data)


def _path(request: Any) -> Path:
    hint = "Must be the `path` of the part, as JSON."
    try:
        return path_of(request.query_params.get("path", ""))
    except ValueError:
        raise ValidationError({"path": [hint]}) from None
