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

from django_agent_sessions import audit, blobs, serving
from django_agent_sessions.content import dialects
from django_agent_sessions.content.blob_refs import BlobRef
from django_agent_sessions.content.paths import Path, path_from_json
from django_agent_sessions.governance.redaction.originals import original_kept_until
from django_agent_sessions.models import AuditEvent, Blob, Session, SessionMessage
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.queries import message_pages
from django_agent_sessions.queries.message_pages import MessagePreview, MessageQuery
from django_agent_sessions.rest import throttles
from django_agent_sessions.rest.access import parse_uuid_or_404
from django_agent_sessions.rest.base import SessionAPI
from django_agent_sessions.rest.examples import ORIGINAL, REDACT_MESSAGE
from django_agent_sessions.rest.pagination import RAW
from django_agent_sessions.rest.problems import RangeNotSatisfiable
from django_agent_sessions.rest.query_parameters import boolean_parameter
from django_agent_sessions.rest.redaction import redaction_response
from django_agent_sessions.rest.renderers import FileNegotiation
from django_agent_sessions.rest.schema import (
    IF_NONE_MATCH,
    MESSAGE_PARAMETER,
    NOT_MODIFIED,
    RANGE,
    SCOPE_PARAMETERS,
    describe_view,
    documented_response,
    problem_responses,
    response_header,
)
from django_agent_sessions.rest.serializers.messages import (
    MessageContext,
    MessageSerializer,
    media_url,
)
from django_agent_sessions.rest.serializers.redaction import (
    MessageRedactionRequest,
    ReasonRequest,
    RedactionSerializer,
)


@describe_view(parameters=[*SCOPE_PARAMETERS, MESSAGE_PARAMETER], tags=["Messages"])
class MessageViewSet(SessionAPI, viewsets.GenericViewSet[Any]):
    """One message of a session that the user reaches."""

    queryset = SessionMessage.objects.none()
    serializer_class = MessageSerializer
    pagination_class = None
    lookup_url_kwarg = "message"
    lookup_value_converter = "str"

    @describe_view(
        operation_id="messages_retrieve",
        parameters=[OpenApiParameter("raw", bool, description="Include the payload as stored.")],
        responses={
            200: documented_response(MessageSerializer, "The message."),
            **problem_responses(400, 404),
        },
    )
    def retrieve(self, request: Any, message: str) -> Response:
        """Return a message; a large one is not truncated."""
        session, key = self._find(message, SessionPermission.READ)
        raw = boolean_parameter(request, RAW)
        row = self._read(session, key)
        self.record_access(session, key, view="message")
        return self._response(session, row, raw=raw)

    @describe_view(
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
            response_header("Content-Disposition", "The name of the file.", 200),
        ],
        responses={
            (200, "image/*"): documented_response(OpenApiTypes.BINARY, "An image."),
            (200, "application/octet-stream"): documented_response(
                OpenApiTypes.BINARY, "A file to save."
            ),
            (206, "image/*"): documented_response(OpenApiTypes.BINARY, "A range of an image."),
            (206, "application/octet-stream"): documented_response(
                OpenApiTypes.BINARY, "A range of a file."
            ),
            302: OpenApiResponse(description="A temporary redirect to the file's storage."),
            **NOT_MODIFIED,
            **problem_responses(400, 404, 416, 503),
        },
    )
    @action(detail=True, methods=["get"], content_negotiation_class=FileNegotiation)
    def media(self, request: Any, message: str) -> Any:
        """Return an image, document, recording or video of a message."""
        path = _path(request)
        session, key = self._find(message, SessionPermission.READ)
        row = self._read(session, key)
        reading = MessageContext.of(session, self.using)
        dialect = reading.agents.get(row.agent_id, ("", ""))[1]
        part = dialects.get(dialect).binary_at(row.payload, path)
        if part is None:
            raise Http404
        self.record_access(session, key, view="media")
        download = request.query_params.get("download") == "true"
        content, media_type = part
        source = self._source(session, content)
        try:
            return serving.serve_media(
                request._request, source, media_type, str(key), download=download
            )
        except serving.UnsatisfiableRangeError as error:
            raise RangeNotSatisfiable(error.content_range) from None

    @describe_view(
        operation_id="messages_redact",
        tags=["Redaction"],
        request=MessageRedactionRequest,
        responses={
            200: documented_response(RedactionSerializer, "The result, or the preview."),
            **problem_responses(400, 404, 409, 413, 503),
        },
        examples=REDACT_MESSAGE,
    )
    @action(detail=True, methods=["post"], throttle_scope=throttles.REDACT)
    def redact(self, request: Any, message: str) -> Response:
        """Redact a message, one part, a range of a text, or the findings in it.

        The content is replaced by a mask permanently. The conversation stays valid for its SDK.
        """
        session, key = self._find(message, SessionPermission.READ, SessionPermission.REDACT)
        return redaction_response(
            self, session, MessageRedactionRequest, lambda given: given.scope(key)
        )

    @describe_view(
        operation_id="messages_original",
        tags=["Redaction"],
        request=ReasonRequest,
        responses={
            200: documented_response(MessageSerializer, "The original message."),
            **problem_responses(400, 404, 413),
        },
        examples=ORIGINAL,
    )
    @action(detail=True, methods=["post"])
    def original(self, request: Any, message: str) -> Response:
        """Return the original of a redacted message, if it was kept.

        Requires the permission ``view_original`` and a reason, also from the owner. The access is
        recorded before the original is returned.
        """
        session, key = self._find(message, SessionPermission.READ, SessionPermission.VIEW_ORIGINAL)
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

    def _find(self, message: str, *needed: SessionPermission) -> tuple[Session, UUID]:
        """Return the session and key of a message; raise ``Http404`` if it is out of reach."""
        key = parse_uuid_or_404(message)
        row = (
            self.accessible_sessions()
            .defer("metadata", "origin")
            # Filtered by the message, not only by a name in the URL: it decides the session.
            .filter(pk__in=SessionMessage.objects.filter(pk=key).values("session"))
            .first()
        )
        if row is None or not self.has_permissions(row, *needed):
            raise Http404
        return row, key

    def _read(self, session: Session, key: UUID) -> MessagePreview:
        scope = MessageQuery(session, only=frozenset([key]))
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

    def _response(
        self, session: Session, row: MessagePreview, *, raw: bool = False, media: bool = True
    ) -> Response:
        url = media_url(self) if media else ""
        reading = MessageContext.of(session, self.using, media_url=url, raw=raw)
        context = {**self.get_serializer_context(), "reading": reading}
        return Response(self.get_serializer(row, context=context).data)


def _path(request: Any) -> Path:
    hint = "Must be the `path` of the part, as JSON."
    try:
        return path_from_json(request.query_params.get("path", ""))
    except ValueError:
        raise ValidationError({"path": [hint]}) from None
