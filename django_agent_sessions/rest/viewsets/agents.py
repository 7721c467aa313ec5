"""The agents and orchestrators of a session."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import Q
from django.http import Http404
from drf_spectacular.utils import OpenApiParameter
from rest_framework import viewsets
from rest_framework.response import Response

from django_agent_sessions.models import Session, SessionAgent, SessionMultiAgent
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.rest.base import SessionAPI
from django_agent_sessions.rest.pagination import AgentPagination
from django_agent_sessions.rest.schema import (
    SCOPE_PARAMETERS,
    SESSION_PARAMETER,
    describe_view,
    documented_response,
    problem_responses,
)
from django_agent_sessions.rest.serializers.sessions import (
    AgentSerializer,
    AgentStateSerializer,
    MultiAgentSerializer,
    MultiAgentStateSerializer,
)


class _SessionPartViewSet(SessionAPI, viewsets.GenericViewSet[Any]):
    """The base of both viewsets; users with ``view_sessionagent`` see states."""

    pagination_class: Any = AgentPagination
    lookup_value_converter = "agent_sessions_text"
    shows_state: ClassVar[bool] = False
    """Whether states are shown without that permission."""

    id_field: ClassVar[str]
    state_serializer_class: ClassVar[type[Any]]

    def _rows(self, session: Session) -> Any:
        rows = type(self).queryset.using(self.using)  # type: ignore[union-attr] # subclasses set it
        return rows.filter(session=session).order_by("pk")

    def _list(self, request: Any, session: str) -> Response:
        row = self.session(session, SessionPermission.READ)
        self.record_access(row, view=self.basename)
        serializer_class: Any = self.serializer_class
        paginator: Any = self.paginator
        rows = self._rows(row).only(*serializer_class.Meta.fields)
        page = paginator.paginate_queryset(rows, request, view=self)
        response: Response = paginator.get_paginated_response(
            serializer_class(page, many=True).data
        )
        return response

    def _retrieve(self, request: Any, session: str, key: str) -> Response:
        row = self.session(session, SessionPermission.READ)
        shows_state = self.shows_state or self.has_permissions(row, SessionPermission.VIEW_STATE)
        serializer_class: Any = (
            self.state_serializer_class if shows_state else self.serializer_class
        )
        if "\x00" in key:
            raise Http404
        agent = (
            self._rows(row)
            .only(*serializer_class.Meta.fields)
            .filter(Q(**{self.id_field: key}))
            .first()
        )
        if agent is None:
            raise Http404
        self.record_access(row, agent.pk, view="state" if shows_state else "agent")
        return Response(serializer_class(agent).data)


@describe_view(parameters=[*SCOPE_PARAMETERS, SESSION_PARAMETER], tags=["Agents"])
class AgentViewSet(_SessionPartViewSet):
    """The agents of a session."""

    queryset = SessionAgent.objects.all()
    serializer_class = AgentSerializer
    state_serializer_class = AgentStateSerializer
    lookup_url_kwarg = "agent"
    id_field = "agent_id"

    @describe_view(
        operation_id="agents_list",
        responses={
            200: documented_response(AgentSerializer(many=True), "A page."),
            **problem_responses(400, 404),
        },
    )
    def list(self, request: Any, session: str) -> Response:
        """List the agents, oldest first."""
        return self._list(request, session)

    @describe_view(
        operation_id="agents_retrieve",
        parameters=[OpenApiParameter("agent", str, "path", description="The agent's id.")],
        responses={
            200: documented_response(AgentStateSerializer, "The agent."),
            **problem_responses(404),
        },
    )
    def retrieve(self, request: Any, session: str, agent: str) -> Response:
        """Return an agent, with its state for users who may see it."""
        return self._retrieve(request, session, agent)


@describe_view(parameters=[*SCOPE_PARAMETERS, SESSION_PARAMETER], tags=["Agents"])
class MultiAgentViewSet(_SessionPartViewSet):
    """The orchestrators of a session: graphs and swarms."""

    queryset = SessionMultiAgent.objects.all()
    serializer_class = MultiAgentSerializer
    state_serializer_class = MultiAgentStateSerializer
    lookup_url_kwarg = "multi_agent"
    id_field = "multi_agent_id"

    @describe_view(
        operation_id="multi_agents_list",
        responses={
            200: documented_response(MultiAgentSerializer(many=True), "A page."),
            **problem_responses(400, 404),
        },
    )
    def list(self, request: Any, session: str) -> Response:
        """List the orchestrators, oldest first."""
        return self._list(request, session)

    @describe_view(
        operation_id="multi_agents_retrieve",
        parameters=[
            OpenApiParameter("multi_agent", str, "path", description="The orchestrator's id.")
        ],
        responses={
            200: documented_response(MultiAgentStateSerializer, "The orchestrator."),
            **problem_responses(404),
        },
    )
    def retrieve(self, request: Any, session: str, multi_agent: str) -> Response:
        """Return an orchestrator, with its state for users who may see it."""
        return self._retrieve(request, session, multi_agent)
