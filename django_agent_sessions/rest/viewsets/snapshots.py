"""The snapshots of an agent: its state at one point, and the position of its last message."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from drf_spectacular.utils import OpenApiParameter
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.response import Response

from django_agent_sessions.models import AuditEvent, Session, Snapshot
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.rest import throttles
from django_agent_sessions.rest.access import parse_uuid_or_404
from django_agent_sessions.rest.agent_api import AgentAPI
from django_agent_sessions.rest.pagination import SnapshotPagination
from django_agent_sessions.rest.schema import (
    AGENT_PARAMETER,
    SCOPE_PARAMETERS,
    describe_view,
    documented_response,
    problem_responses,
)
from django_agent_sessions.rest.serializers.branches import SnapshotSerializer
from django_agent_sessions.rest.session_locking import record_change, with_locked_session
from django_agent_sessions.store.snapshots import LATEST_SNAPSHOT_ID
from django_agent_sessions.values.records import AgentRecord, SnapshotRecord

_SNAPSHOT = OpenApiParameter(
    "snapshot", {"type": "string", "format": "uuid"}, "path", description="The snapshot's id."
)


@describe_view(parameters=[*SCOPE_PARAMETERS, AGENT_PARAMETER], tags=["Branches"])
class SnapshotViewSet(AgentAPI):
    """The snapshots of an agent. The state that a snapshot holds can be restored, but not read."""

    queryset = Snapshot.objects.none()
    serializer_class = SnapshotSerializer
    pagination_class = SnapshotPagination
    lookup_url_kwarg = "snapshot"

    @describe_view(
        operation_id="snapshots_list",
        responses={
            200: documented_response(SnapshotSerializer(many=True), "A page."),
            **problem_responses(400, 404),
        },
    )
    def list(self, request: Any, agent_key: str) -> Response:
        """List the snapshots, newest first."""
        row, agent = self.find_agent(agent_key, SessionPermission.READ)
        paginator: Any = self.paginator
        page = paginator.paginate_queryset(self._rows(agent), request, view=self)
        self.record_access(row, agent.id, view="snapshots", snapshots=len(page))
        data = self.get_serializer(page, many=True).data
        response: Response = paginator.get_paginated_response(data)
        return response

    @describe_view(
        operation_id="snapshots_create",
        request=None,
        responses={
            201: documented_response(SnapshotSerializer, "The snapshot."),
            **problem_responses(404, 409),
        },
    )
    def create(self, request: Any, agent_key: str) -> Response:
        """Take a snapshot of the agent as it is now; no message is copied."""
        row, agent = self.find_agent(agent_key, SessionPermission.READ, SessionPermission.CHANGE)

        def take(session: Session) -> SnapshotRecord:
            snapshot = self.store().snapshots.take(agent)
            self.record_access(row, agent.id, view="snapshot", snapshot=str(snapshot.id))
            return snapshot

        snapshot = with_locked_session(self.using, row, take, "taking a snapshot")
        return self._response(snapshot, status.HTTP_201_CREATED)

    @describe_view(
        operation_id="snapshots_restore",
        parameters=[_SNAPSHOT],
        request=None,
        responses={
            200: documented_response(SnapshotSerializer, "The snapshot."),
            **problem_responses(404, 409),
        },
    )
    @action(detail=True, methods=["post"], throttle_scope=throttles.BRANCH, pagination_class=None)
    def restore(self, request: Any, agent_key: str, snapshot: str) -> Response:
        """Restore the agent's conversation and state from a snapshot.

        Later messages are kept as a side branch, and the current state as another snapshot.
        """
        row, agent = self.find_agent(agent_key, SessionPermission.READ, SessionPermission.CHANGE)
        key = parse_uuid_or_404(snapshot)

        def restore(session: Session) -> SnapshotRecord:
            if not self._rows(agent).filter(pk=key).exists():
                raise Http404
            restored = self.store().snapshots.restore(agent, key)
            record_change(self, AuditEvent.Action.RESTORED, row, key, messages=restored.length)
            return restored

        return self._response(with_locked_session(self.using, row, restore, "restoring a snapshot"))

    def _rows(self, agent: AgentRecord) -> QuerySet[Snapshot]:
        rows = Snapshot.objects.using(self.using).filter(agent=agent.id)
        # Documents may be large. The latest "snapshot" is the state of the agent itself.
        return rows.exclude(snapshot_id=LATEST_SNAPSHOT_ID).defer("document", "messages")

    def _response(self, snapshot: SnapshotRecord, code: int = status.HTTP_200_OK) -> Response:
        return Response(self.get_serializer(snapshot).data, status=code)
