"""The branches of an agent's conversation."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

from django.http import Http404
from drf_spectacular.utils import OpenApiParameter
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.response import Response

from django_agent_sessions.models import (
    MAIN_BRANCH,
    SessionAgent,
    SessionMessage,
    Snapshot,
)
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.queries.message_pages import MessageQuery
from django_agent_sessions.rest.base import ThrottleScope, etag_response, require_match
from django_agent_sessions.rest.changes import AgentAPI, named_by_fields
from django_agent_sessions.rest.pagination import (
    BranchPagination,
    MessagePagination,
    SnapshotPagination,
)
from django_agent_sessions.rest.problems import Conflict, ReferenceNotFound
from django_agent_sessions.rest.schema import (
    AGENT_PARAMETER,
    CREATE_BRANCH,
    ETAG,
    IF_MATCH,
    IF_NONE_MATCH,
    NOT_MODIFIED,
    REASON_PARAMETER,
    RESTORE,
    REWIND,
    SCOPE_PARAMETERS,
    describe_view,
    operation,
)
from django_agent_sessions.rest.serializers.branches import (
    BranchCreateSerializer,
    BranchSerializer,
    ComparisonSerializer,
    RewindSerializer,
    SetAsideSerializer,
    SnapshotSerializer,
)
from django_agent_sessions.rest.serializers.fields import ReasonSerializer
from django_agent_sessions.rest.serializers.messages import MessageSerializer
from django_agent_sessions.timeline.references import (
    MAX_POSITION,
    find_branch,
    has_branch,
    parse_branch_number,
    restorable_snapshots,
)
from django_agent_sessions.values.records import BranchRecord, SnapshotRecord

from .messages import MessageListMixin

_LEFT, _RIGHT = "left", "right"
_NO_BRANCH = "The agent has no such branch."

_NUMBER = OpenApiParameter(
    "number",
    {"type": "integer", "minimum": 0, "maximum": MAX_POSITION},
    "path",
    description="The branch's number; 0 is the main branch.",
)


@describe_view(parameters=[*SCOPE_PARAMETERS, AGENT_PARAMETER], tags=["Branches"])
class RewindViewSet(AgentAPI):
    """Rewinding a conversation."""

    queryset = SessionAgent.objects.none()
    serializer_class = RewindSerializer
    lookup_url_kwarg = "agent_key"
    lookup_value_converter = "agent_sessions_uuid"

    @operation(
        "agents_rewind",
        {200: (SetAsideSerializer, "The later messages, kept as a side branch.")},
        errors=(400, 404, 409, 413),
        request=RewindSerializer,
        examples=REWIND,
    )
    @action(detail=True, methods=["post"], throttle_scope=ThrottleScope.BRANCH)
    def rewind(self, request: Any, agent_key: UUID) -> Response:
        """Rewind to a message; the messages after it are kept as a side branch.

        The agent's state is restored as well, if a snapshot has it. A repeated request with the
        message's id changes nothing. ``to: -1`` keeps no message.
        """
        row, agent = self.find_agent(agent_key, SessionPermission.READ, SessionPermission.CHANGE)
        data = self.read_body(RewindSerializer)

        with named_by_fields(message="to"):
            branch = self.timeline(row, reason=data.get("reason")).rewind(
                agent, data["to"], name=data.get("name")
            )
        return Response(SetAsideSerializer({"branch": branch}).data)


@describe_view(parameters=[*SCOPE_PARAMETERS, AGENT_PARAMETER], tags=["Branches"])
class BranchViewSet(AgentAPI):
    """The branches of an agent's conversation."""

    queryset = SessionAgent.objects.none()
    serializer_class = BranchSerializer
    pagination_class = BranchPagination
    lookup_url_kwarg = "number"
    lookup_value_converter = "agent_sessions_branch"

    def get_throttles(self) -> list[Any]:
        """Limit the creation of branches separately, because it copies messages."""
        if self.action == "create":
            self.throttle_scope = ThrottleScope.BRANCH
        return super().get_throttles()

    @operation(
        "branches_list",
        {200: (BranchSerializer(many=True), "A page.")},
        errors=(400, 404),
    )
    def list(self, request: Any, agent_key: UUID) -> Response:
        """List the branches: the main branch first, then by number."""
        row, agent = self.find_agent(agent_key, SessionPermission.READ)
        page: Any = self.paginate_queryset(self.store().branches.list(agent))
        self.record_access(row, agent.id, view="branches", branches=len(page))
        return self.get_paginated_response(self._representation(page, many=True))

    @operation(
        "branches_create",
        {201: (BranchSerializer, "The new branch.")},
        errors=(400, 404, 409, 413),
        request=BranchCreateSerializer,
        examples=CREATE_BRANCH,
    )
    def create(self, request: Any, agent_key: UUID) -> Response:
        """Create a side branch that starts as a copy of another.

        With a ``name`` the request is safe to repeat: a name that is already in use returns a 409.
        """
        row, agent = self.find_agent(agent_key, SessionPermission.READ, SessionPermission.CHANGE)
        data = self.read_body(BranchCreateSerializer)

        with named_by_fields(branch="source", message="at"):
            branch = self.timeline(row).create_branch(
                agent, name=data.get("name"), source=data.get("source"), at=data.get("at")
            )
        return Response(self._representation(branch), status=status.HTTP_201_CREATED)

    @operation(
        "branches_retrieve",
        {
            200: (BranchSerializer, "The branch."),
            **NOT_MODIFIED,
        },
        errors=(404,),
        parameters=[_NUMBER, IF_NONE_MATCH, ETAG],
    )
    def retrieve(self, request: Any, agent_key: UUID, number: int) -> Any:
        """Return a branch.

        Send its ``ETag`` as ``If-Match`` to switch to the branch or to delete it: branch numbers
        are reused.
        """
        row, agent = self.find_agent(agent_key, SessionPermission.READ)
        branch = find_branch(self.using, agent, number)
        self.record_access(row, agent.id, view="branch", branch=branch.number)
        return etag_response(request, self._representation(branch))

    @operation(
        "branches_delete",
        {204: "The branch was deleted."},
        errors=(400, 404, 409, 412),
        parameters=[_NUMBER, IF_MATCH, REASON_PARAMETER],
    )
    def destroy(self, request: Any, agent_key: UUID, number: int) -> Response:
        """Delete a side branch with its messages, unless the session is under legal hold."""
        row, agent = self.find_agent(
            agent_key, SessionPermission.READ, SessionPermission.CHANGE, SessionPermission.DELETE
        )

        check = partial(self._check_side_branch, "Switch to another branch before deleting it.")
        self.timeline(row, reason=self.read_reason()).delete_branch(agent, number, check)
        return Response(status=status.HTTP_204_NO_CONTENT)

    @operation(
        "branches_switch",
        {200: (SetAsideSerializer, "The former main branch, as a side branch.")},
        errors=(400, 404, 409, 412, 413),
        parameters=[_NUMBER, IF_MATCH],
        request=ReasonSerializer,
        examples=RESTORE,
    )
    @action(
        detail=True, methods=["post"], throttle_scope=ThrottleScope.BRANCH, pagination_class=None
    )
    def switch(self, request: Any, agent_key: UUID, number: int) -> Response:
        """Make a side branch the main branch; the former main branch gets a new number.

        The agent's state is restored as well, if a snapshot has it.
        """
        row, agent = self.find_agent(agent_key, SessionPermission.READ, SessionPermission.CHANGE)
        reason = self.read_body(ReasonSerializer).get("reason")

        check = partial(self._check_side_branch, "The agent already uses it.")
        timeline = self.timeline(row, reason=reason)
        former_main = timeline.switch_branch(agent, number, check)
        return Response(SetAsideSerializer({"branch": former_main}).data)

    @operation(
        "branches_compare",
        {200: (ComparisonSerializer, "The comparison.")},
        errors=(400, 404),
        parameters=[
            OpenApiParameter(
                name,
                {"type": "integer", "minimum": 0, "maximum": MAX_POSITION, "default": MAIN_BRANCH},
                description="The number of a branch; the main branch by default.",
            )
            for name in (_LEFT, _RIGHT)
        ],
    )
    @action(detail=False, methods=["get"], pagination_class=None)
    def compare(self, request: Any, agent_key: UUID) -> Response:
        """Compare the messages of two branches."""
        row, agent = self.find_agent(agent_key, SessionPermission.READ)
        left, right = (self._branch_parameter(request, name) for name in (_LEFT, _RIGHT))
        lengths = {branch.number: branch.length for branch in self.store().branches.list(agent)}
        for name, number in ((_LEFT, left), (_RIGHT, right)):
            if number not in lengths:
                raise ReferenceNotFound(name, _NO_BRANCH)
        common = self.store().branches.common_length(agent, left, right)
        self.record_access(row, agent.id, view="compare", left=left, right=right)
        comparison = {"common": common, "left": lengths[left], "right": lengths[right]}
        return Response(ComparisonSerializer(comparison).data)

    def _check_side_branch(self, advice: str, branch: BranchRecord) -> None:
        """Refuse a branch: a failed ``If-Match`` is a 412, the main branch a 409."""
        require_match(self.request, self._representation(branch))
        if branch.number == MAIN_BRANCH:
            raise Conflict(f"This is the main branch. {advice}")

    def _branch_parameter(self, request: Any, name: str) -> int:
        number = parse_branch_number(request.query_params.get(name, str(MAIN_BRANCH)))
        if number is None:
            raise ValidationError({name: ["Must be the number of a branch."]})
        return number

    def _representation(self, branches: Any, *, many: bool = False) -> Any:
        return self.get_serializer(branches, many=many).data


@describe_view(parameters=[*SCOPE_PARAMETERS, AGENT_PARAMETER, _NUMBER], tags=["Branches"])
class BranchMessageViewSet(AgentAPI, MessageListMixin):
    """The messages of one branch of an agent's conversation."""

    queryset = SessionMessage.objects.none()
    serializer_class = MessageSerializer
    pagination_class = MessagePagination

    @operation(
        "branches_messages",
        {200: (MessageSerializer(many=True), "A page of messages.")},
        errors=(400, 404),
        parameters=[OpenApiParameter("raw", bool, description="Include the payloads as stored.")],
    )
    def list(self, request: Any, agent_key: UUID, number: int) -> Response:
        """List the messages of a branch, oldest first by default."""
        row, agent = self.find_agent(agent_key, SessionPermission.READ)
        if not has_branch(self.using, agent.id, number):
            raise Http404
        agent_row = SessionAgent(pk=agent.id)
        return self.page_response(
            row,
            lambda _: MessageQuery(row, agent_row, branch=number),
            branch=number,
        )


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
    lookup_value_converter = "agent_sessions_uuid"

    @operation(
        "snapshots_list",
        {200: (SnapshotSerializer(many=True), "A page.")},
        errors=(400, 404),
    )
    def list(self, request: Any, agent_key: UUID) -> Response:
        """List the snapshots, newest first."""
        row, agent = self.find_agent(agent_key, SessionPermission.READ)
        page: Any = self.paginate_queryset(restorable_snapshots(self.using, agent))
        self.record_access(row, agent.id, view="snapshots", snapshots=len(page))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)

    @operation(
        "snapshots_create",
        {201: (SnapshotSerializer, "The snapshot.")},
        errors=(404, 409, 413),
        request=None,
    )
    def create(self, request: Any, agent_key: UUID) -> Response:
        """Take a snapshot of the agent as it is now; no message is copied."""
        row, agent = self.find_agent(agent_key, SessionPermission.READ, SessionPermission.CHANGE)
        snapshot = self.timeline(row).take_snapshot(agent)
        return self._response(snapshot, status.HTTP_201_CREATED)

    @operation(
        "snapshots_restore",
        {200: (SnapshotSerializer, "The snapshot.")},
        errors=(400, 404, 409, 413),
        parameters=[_SNAPSHOT],
        request=ReasonSerializer,
        examples=RESTORE,
    )
    @action(
        detail=True, methods=["post"], throttle_scope=ThrottleScope.BRANCH, pagination_class=None
    )
    def restore(self, request: Any, agent_key: UUID, snapshot: UUID) -> Response:
        """Restore the agent's conversation and state from a snapshot.

        Later messages are kept as a side branch, and the current state as another snapshot.
        """
        row, agent = self.find_agent(agent_key, SessionPermission.READ, SessionPermission.CHANGE)
        reason = self.read_body(ReasonSerializer).get("reason")
        return self._response(self.timeline(row, reason=reason).restore_snapshot(agent, snapshot))

    def _response(self, snapshot: SnapshotRecord, code: int = status.HTTP_200_OK) -> Response:
        return Response(self.get_serializer(snapshot).data, status=code)
