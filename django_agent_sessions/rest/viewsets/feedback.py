"""Feedback on the messages of a session, and the rating of one message."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import Http404
from rest_framework import status, viewsets
from rest_framework.response import Response

from django_agent_sessions.models import MessageFeedback, Session, SessionMessage
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.rest.base import SessionAPI
from django_agent_sessions.rest.pagination import AgentPagination
from django_agent_sessions.rest.schema import (
    FEEDBACK,
    MESSAGE_PARAMETER,
    SCOPE_PARAMETERS,
    SESSION_PARAMETER,
    describe_view,
    operation,
)
from django_agent_sessions.rest.serializers.feedback import FeedbackRequest, FeedbackSerializer
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.owners import EVERYBODY
from django_agent_sessions.values.records import FeedbackRecord

OF_OWNER, OF_REVIEWER = "user", "reviewer"
"""The sources of feedback by the session's owner or a participant, and by another user."""


class RatingAPI(SessionAPI):
    """The base of views by which the user rates a message."""

    def rate(
        self, session: Session, message: UUID, value: int, comment: str = ""
    ) -> FeedbackRecord:
        """Store the user's feedback on a message of a session that is reached."""
        store = SessionStore(owner=EVERYBODY, using=self.using)
        return store.feedback.save(
            message,
            value,
            comment=comment,
            source=self.source_in(session),
            user=self.request.user,
        )

    def source_in(self, session: Session) -> str:
        """Return the source of the user's feedback in a session."""
        return OF_OWNER if self.role_in(session) else OF_REVIEWER


@describe_view(parameters=[*SCOPE_PARAMETERS, SESSION_PARAMETER], tags=["Feedback"])
class FeedbackViewSet(SessionAPI, viewsets.GenericViewSet[Any]):
    """The feedback on messages of a session."""

    queryset = MessageFeedback.objects.none()
    serializer_class = FeedbackSerializer
    pagination_class: Any = AgentPagination

    @operation(
        "feedback_list", {200: (FeedbackSerializer(many=True), "A page.")}, errors=(400, 404)
    )
    def list(self, request: Any, session: UUID) -> Response:
        """List the feedback, oldest first; owners and participants see their own.

        Users who reach the session by a permission see the feedback of all users.
        """
        row = self.session(session, SessionPermission.READ)
        self.record_access(row, view="feedback")
        rows = MessageFeedback.objects.using(self.using).filter(session=row)
        if self.role_in(row):
            # The comments of reviewers may not be for the person whom they are about.
            rows = rows.filter(user=str(request.user.pk))
        page: Any = self.paginate_queryset(rows)
        return self.get_paginated_response(self.get_serializer(page, many=True).data)


@describe_view(parameters=[*SCOPE_PARAMETERS, MESSAGE_PARAMETER], tags=["Feedback"])
class MessageFeedbackView(RatingAPI):
    """The user's feedback on a message."""

    @operation(
        "messages_feedback",
        {200: (FeedbackSerializer, "The feedback.")},
        errors=(400, 404, 409, 413),
        request=FeedbackRequest,
        examples=FEEDBACK,
    )
    def put(self, request: Any, message: UUID) -> Response:
        """Rate a message, in place of an earlier rating by the user.

        Requires the permission ``add_messagefeedback`` in sessions of other users.
        """
        session = self._session(message)
        fields = self.read_body(FeedbackRequest)
        self.record_access(session, message, view="feedback")
        saved = self.rate(session, message, fields["value"], fields["comment"])
        row = MessageFeedback.objects.using(self.using).filter(pk=saved.id).first()
        if row is None:
            raise Http404
        return Response(FeedbackSerializer(row).data)

    @operation(
        "messages_feedback_delete",
        {204: "There is no feedback of the user on the message."},
        errors=(404, 409),
    )
    def delete(self, request: Any, message: UUID) -> Response:
        """Withdraw the user's rating of a message; it is not an error if there is none."""
        session = self._session(message)
        store = SessionStore(owner=EVERYBODY, using=self.using)
        store.feedback.delete(message, source=self.source_in(session), user=request.user)
        return Response(status=status.HTTP_204_NO_CONTENT)

    def _session(self, message: UUID) -> Session:
        rows = SessionMessage.objects.filter(pk=message)
        return self.session_of(rows, SessionPermission.READ, SessionPermission.RATE)
