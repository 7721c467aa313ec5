"""The messages of a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter
from rest_framework import viewsets
from rest_framework.response import Response

from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.queries import message_pages, replicas
from django_agent_sessions.queries.message_pages import MessageQuery
from django_agent_sessions.queries.search import MAX_QUERY_LENGTH, find_messages
from django_agent_sessions.rest import throttles
from django_agent_sessions.rest.base import SessionAPI
from django_agent_sessions.rest.pagination import AGENT, RAW, MessagePagination
from django_agent_sessions.rest.query_parameters import boolean_parameter, is_search, search_query
from django_agent_sessions.rest.schema import (
    SCOPE_PARAMETERS,
    SESSION_PARAMETER,
    describe_view,
    documented_response,
    problem_responses,
)
from django_agent_sessions.rest.serializers.messages import (
    MessageContext,
    MessageSerializer,
    media_url,
)


class MessageListMixin(SessionAPI):
    """A page of messages; mixed into viewsets."""

    def page_response(
        self, row: Session, scope_of: Callable[[MessageContext, str], MessageQuery], **details: Any
    ) -> Response:
        """Return a page of messages and record the read.

        ``scope_of`` maps the representation context and the alias of the database to the messages.
        """
        view: Any = self
        using = replicas.database_of(row, self.request)
        reading = MessageContext.of(
            row, using, media_url=media_url(self), raw=boolean_parameter(self.request, RAW)
        )
        scope = scope_of(reading, using)
        window = view.paginator.read(self.request, scope, view=self)
        if window.rows:
            message_pages.read_payloads(scope, window.rows)
        if window.rows:
            details |= {"first": str(window.rows[0].id), "last": str(window.rows[-1].id)}
        self.record_access(row, view="messages", messages=len(window.rows), **details)
        context = {**view.get_serializer_context(), "reading": reading}
        data = view.get_serializer(window.rows, many=True, context=context).data
        response: Response = view.paginator.get_paginated_response(data)
        return response


@describe_view(parameters=[*SCOPE_PARAMETERS, SESSION_PARAMETER], tags=["Messages"])
class ConversationViewSet(MessageListMixin, viewsets.GenericViewSet[Any]):
    """The messages of a session: of all agents in order of time, or of one agent."""

    queryset = SessionMessage.objects.none()
    serializer_class = MessageSerializer
    pagination_class = MessagePagination

    def get_throttles(self) -> list[Any]:
        """Limit searches separately, because they cost more."""
        if is_search(self.request):
            self.throttle_scope = throttles.SEARCH
        return super().get_throttles()

    @describe_view(
        operation_id="messages_list",
        parameters=[
            OpenApiParameter("agent", str, description="Only this agent's messages."),
            OpenApiParameter(
                "q",
                {"type": "string", "maxLength": MAX_QUERY_LENGTH},
                description="Only messages whose text contains this.",
            ),
            OpenApiParameter("raw", bool, description="Include the payloads as stored."),
        ],
        responses={
            200: documented_response(MessageSerializer(many=True), "A page of messages."),
            **problem_responses(400, 404),
        },
    )
    def list(self, request: Any, session: str) -> Response:
        """List messages as parts, in either direction or around one of them."""
        row = self.session(session, SessionPermission.READ)
        return self.page_response(row, lambda reading, using: self._scope(row, reading, using))

    def _scope(self, row: Session, reading: MessageContext, using: str) -> MessageQuery:
        name, query = self._agent_parameter(), search_query(self.request)
        only = None
        if query:
            only = frozenset(find_messages(row.pk, query, using=using))
        if name is None:
            return MessageQuery(row, only=only, main=True, alias=using)
        keys = [key for key, (agent_id, _) in reading.agents.items() if agent_id == name]
        # An unknown agent has no messages.
        agent = SessionAgent(pk=keys[0] if keys else UUID(int=0))
        return MessageQuery(row, agent, only, alias=using)

    def _agent_parameter(self) -> str | None:
        name: str | None = self.request.query_params.get(AGENT)
        return name
