"""The agents and orchestrators of a session."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

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
    operation,
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

    def _rows(self, session: Session, serializer_class: Any) -> Any:
        rows = type(self).queryset.using(self.using)  # type: ignore[union-attr] # subclasses set it
        rows = rows.filter(session=session).order_by("pk")
        return rows.only(*serializer_class.Meta.fields)

    def _list(self, session: UUID) -> Response:
        row = self.session(session, SessionPermission.READ)
        self.record_access(row, view=self.basename)
        serializer_class: Any = self.serializer_class
        page = self.paginate_queryset(self._rows(row, serializer_class))
        return self.get_paginated_response(serializer_class(page, many=True).data)

    def _retrieve(self, session: UUID, key: str) -> Response:
        row = self.session(session, SessionPermission.READ)
        shows_state = self.shows_state or self.has_permissions(row, SessionPermission.VIEW_STATE)
        serializer_class: Any = (
            self.state_serializer_class if shows_state else self.serializer_class
        )
        if "\x00" in key:
            raise Http404
        agent = self._rows(row, serializer_class).filter(Q(**{self.id_field: key})).first()
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

    @operation("agents_list", {200: (AgentSerializer(many=True), "A page.")}, errors=(400, 404))
    def list(self, request: Any, session: UUID) -> Response:
        """List the agents, oldest first."""
        return self._list(session)

    @operation(
        "agents_retrieve",
        {200: (AgentStateSerializer, "The agent.")},
        errors=(404,),
        parameters=[OpenApiParameter("agent", str, "path", description="The agent's id.")],
    )
    def retrieve(self, request: Any, session: UUID, agent: str) -> Response:
        """Return an agent, with its state for users who may see it."""
        return self._retrieve(session, agent)


@describe_view(parameters=[*SCOPE_PARAMETERS, SESSION_PARAMETER], tags=["Agents"])
class MultiAgentViewSet(_SessionPartViewSet):
    """The orchestrators of a session: graphs and swarms."""

    queryset = SessionMultiAgent.objects.all()
    serializer_class = MultiAgentSerializer
    state_serializer_class = MultiAgentStateSerializer
    lookup_url_kwarg = "multi_agent"
    id_field = "multi_agent_id"

    @operation(
        "multi_agents_list", {200: (MultiAgentSerializer(many=True), "A page.")}, errors=(400, 404)
    )
    def list(self, request: Any, session: UUID) -> Response:
        """List the orchestrators, oldest first."""
        return self._list(session)

    @operation(
        "multi_agents_retrieve",
        {200: (MultiAgentStateSerializer, "The orchestrator.")},
        errors=(404,),
        parameters=[
            OpenApiParameter("multi_agent", str, "path", description="The orchestrator's id.")
        ],
    )
    def retrieve(self, request: Any, session: UUID, multi_agent: str) -> Response:
        """Return an orchestrator, with its state for users who may see it."""
        return self._retrieve(session, multi_agent)
