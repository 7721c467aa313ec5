"""The branches of an agent's conversation."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import Http404
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.response import Response

from django_agent_sessions.models import (
    MAIN_BRANCH,
    AuditEvent,
    Branch,
    Session,
    SessionAgent,
    SessionMessage,
)
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.queries.message_pages import MessageQuery
from django_agent_sessions.rest import throttles
from django_agent_sessions.rest.agent_api import AgentAPI, parse_branch_number_or_404
from django_agent_sessions.rest.etags import etag_response, require_match
from django_agent_sessions.rest.examples import CREATE_BRANCH, REWIND
from django_agent_sessions.rest.pagination import BranchMessagePagination, BranchPagination
from django_agent_sessions.rest.problems import Conflict, ReferenceNotFound
from django_agent_sessions.rest.query_parameters import reject_unknown_parameters
from django_agent_sessions.rest.schema import (
    AGENT_PARAMETER,
    ETAG,
    IF_MATCH,
    IF_NONE_MATCH,
    NOT_MODIFIED,
    SCOPE_PARAMETERS,
    describe_view,
    documented_response,
    problem_responses,
)
from django_agent_sessions.rest.serializers.branches import (
    MAX_POSITION,
    BranchCreateSerializer,
    BranchSerializer,
    ComparisonSerializer,
    RewindSerializer,
    SetAsideSerializer,
)
from django_agent_sessions.rest.serializers.messages import MessageSerializer
from django_agent_sessions.rest.session_locking import (
    record_change,
    resolve_position,
    with_locked_session,
)
from django_agent_sessions.values.records import AgentRecord, BranchRecord

from .session_messages import MessageListMixin

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

    @describe_view(
        operation_id="agents_rewind",
        request=RewindSerializer,
        responses={
            200: documented_response(
                SetAsideSerializer, "The later messages, kept as a side branch."
            ),
            **problem_responses(400, 404, 409, 413),
        },
        examples=REWIND,
    )
    @action(detail=True, methods=["post"], throttle_scope=throttles.BRANCH)
    def rewind(self, request: Any, agent_key: str) -> Response:
        """Rewind to a message; the messages after it are kept as a side branch.

        The agent's state is restored as well, if a snapshot has it. A repeated request with the
        message's id changes nothing. ``to: -1`` keeps no message.
        """
        row, agent = self.find_agent(agent_key, SessionPermission.READ, SessionPermission.CHANGE)
        serializer = RewindSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        data = serializer.validated_data

        def rewind(session: Session) -> BranchRecord | None:
            # Read under the lock, so that no other process can move the message.
            _, position = resolve_position(self.using, agent.id, "to", data["to"], MAIN_BRANCH)
            branch = self.store().branches.rewind(agent, position, name=data.get("name"))
            if branch is not None:
                figures = {"branch": branch.number, "set_aside": branch.length - branch.start}
                record_change(self, AuditEvent.Action.REWOUND, row, agent.id, **figures)
            return branch

        branch = with_locked_session(self.using, row, rewind, "rewinding")
        return Response(SetAsideSerializer({"branch": branch}).data)


@describe_view(parameters=[*SCOPE_PARAMETERS, AGENT_PARAMETER], tags=["Branches"])
class BranchViewSet(AgentAPI):
    """The branches of an agent's conversation."""

    queryset = SessionAgent.objects.none()
    serializer_class = BranchSerializer
    pagination_class = BranchPagination
    lookup_url_kwarg = "number"

    def get_throttles(self) -> list[Any]:
        """Limit the creation of branches separately, because it copies messages."""
        if self.action == "create":
            self.throttle_scope = throttles.BRANCH
        return super().get_throttles()

    @describe_view(
        operation_id="branches_list",
        responses={
            200: documented_response(BranchSerializer(many=True), "A page."),
            **problem_responses(400, 404),
        },
    )
    def list(self, request: Any, agent_key: str) -> Response:
        """List the branches: the main branch first, then by number."""
        row, agent = self.find_agent(agent_key, SessionPermission.READ)
        paginator: Any = self.paginator
        page = paginator.read(request, lambda: self.store().branches.list(agent), view=self)
        self.record_access(row, agent.id, view="branches", branches=len(page))
        response: Response = paginator.get_paginated_response(self._representation(page, many=True))
        return response

    @describe_view(
        operation_id="branches_create",
        request=BranchCreateSerializer,
        responses={
            201: documented_response(BranchSerializer, "The new branch."),
            **problem_responses(400, 404, 409, 413),
        },
        examples=CREATE_BRANCH,
    )
    def create(self, request: Any, agent_key: str) -> Response:
        """Create a side branch that starts as a copy of another.

        With a ``name`` the request is safe to repeat: a name that is already in use returns a 409.
        """
        row, agent = self.find_agent(agent_key, SessionPermission.READ, SessionPermission.CHANGE)
        serializer = BranchCreateSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        data = serializer.validated_data

        def create(session: Session) -> BranchRecord:
            source, upto = data.get("source"), None
            if source is not None and not self._has_branch(agent, source):
                raise ReferenceNotFound("source", _NO_BRANCH)
            if "at" in data:
                source, position = resolve_position(self.using, agent.id, "at", data["at"], source)
                upto = position + 1
            branch = self.store().branches.create(
                agent, name=data.get("name"), source=source or MAIN_BRANCH, upto=upto
            )
            self.record_access(row, agent.id, view="branch", branch=branch.number)
            return branch

        branch = with_locked_session(self.using, row, create, "creating a branch")
        return Response(self._representation(branch), status=status.HTTP_201_CREATED)

    @describe_view(
        operation_id="branches_retrieve",
        parameters=[_NUMBER, IF_NONE_MATCH, ETAG],
        responses={
            200: documented_response(BranchSerializer, "The branch."),
            **NOT_MODIFIED,
            **problem_responses(404),
        },
    )
    def retrieve(self, request: Any, agent_key: str, number: str) -> Any:
        """Return a branch.

        Send its ``ETag`` as ``If-Match`` to switch to the branch or to delete it: branch numbers
        are reused.
        """
        row, agent = self.find_agent(agent_key, SessionPermission.READ)
        branch = self.find_branch(agent, number)
        self.record_access(row, agent.id, view="branch", branch=branch.number)
        return etag_response(request, self._representation(branch))

    @describe_view(
        operation_id="branches_delete",
        parameters=[_NUMBER, IF_MATCH],
        responses={
            204: OpenApiResponse(description="The branch was deleted."),
            **problem_responses(400, 404, 409, 412),
        },
    )
    def destroy(self, request: Any, agent_key: str, number: str) -> Response:
        """Delete a side branch with its messages, unless the session is under legal hold."""
        row, agent = self.find_agent(
            agent_key, SessionPermission.READ, SessionPermission.CHANGE, SessionPermission.DELETE
        )

        def delete(session: Session) -> None:
            branch = self._side_branch(
                agent, number, "Switch to another branch before deleting it."
            )
            deleted = self.store().branches.delete(agent, branch.number)
            figures = {"branch": branch.number, "messages": deleted}
            record_change(self, AuditEvent.Action.BRANCH_DELETED, row, agent.id, **figures)

        with_locked_session(self.using, row, delete, "deleting a branch")
        return Response(status=status.HTTP_204_NO_CONTENT)

    @describe_view(
        operation_id="branches_switch",
        parameters=[_NUMBER, IF_MATCH],
        request=None,
        responses={
            200: documented_response(
                SetAsideSerializer, "The former main branch, as a side branch."
            ),
            **problem_responses(400, 404, 409, 412),
        },
    )
    @action(detail=True, methods=["post"], throttle_scope=throttles.BRANCH, pagination_class=None)
    def switch(self, request: Any, agent_key: str, number: str) -> Response:
        """Make a side branch the main branch; the former main branch gets a new number.

        The agent's state is restored as well, if a snapshot has it.
        """
        row, agent = self.find_agent(agent_key, SessionPermission.READ, SessionPermission.CHANGE)

        def switch(session: Session) -> BranchRecord:
            branch = self._side_branch(agent, number, "The agent already uses it.")
            former = self.store().branches.switch(agent, branch.number)
            figures = {"branch": branch.number, "left": former.number}
            record_change(self, AuditEvent.Action.RESTORED, row, agent.id, **figures)
            return former

        former_main = with_locked_session(self.using, row, switch, "switching branches")
        return Response(SetAsideSerializer({"branch": former_main}).data)

    @describe_view(
        operation_id="branches_compare",
        parameters=[
            OpenApiParameter(
                name,
                {"type": "integer", "minimum": 0, "maximum": MAX_POSITION, "default": MAIN_BRANCH},
                description="The number of a branch; the main branch by default.",
            )
            for name in (_LEFT, _RIGHT)
        ],
        responses={
            200: documented_response(ComparisonSerializer, "The comparison."),
            **problem_responses(400, 404),
        },
    )
    @action(detail=False, methods=["get"], pagination_class=None)
    def compare(self, request: Any, agent_key: str) -> Response:
        """Compare the messages of two branches."""
        reject_unknown_parameters(request, [_LEFT, _RIGHT])
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

    def _side_branch(self, agent: AgentRecord, number: str, advice: str) -> BranchRecord:
        """Return a side branch; a failed ``If-Match`` is a 412, the main branch a 409."""
        branch = self.find_branch(agent, number)
        require_match(self.request, self._representation(branch))
        if branch.number == MAIN_BRANCH:
            raise Conflict(f"This is the main branch. {advice}")
        return branch

    def _has_branch(self, agent: AgentRecord, number: int) -> bool:
        return any(branch.number == number for branch in self.store().branches.list(agent))

    def _branch_parameter(self, request: Any, name: str) -> int:
        value = request.query_params.get(name, str(MAIN_BRANCH))
        try:
            return parse_branch_number_or_404(value)
        except Http404:
            raise ValidationError({name: ["Must be the number of a branch."]}) from None

    def _representation(self, branches: Any, *, many: bool = False) -> Any:
        return self.get_serializer(branches, many=many).data


@describe_view(parameters=[*SCOPE_PARAMETERS, AGENT_PARAMETER, _NUMBER], tags=["Branches"])
class BranchMessageViewSet(AgentAPI, MessageListMixin):
    """The messages of one branch of an agent's conversation."""

    queryset = SessionMessage.objects.none()
    serializer_class = MessageSerializer
    pagination_class = BranchMessagePagination

    @describe_view(
        operation_id="branches_messages",
        parameters=[OpenApiParameter("raw", bool, description="Include the payloads as stored.")],
        responses={
            200: documented_response(MessageSerializer(many=True), "A page of messages."),
            **problem_responses(400, 404),
        },
    )
    def list(self, request: Any, agent_key: str, number: str) -> Response:
        """List the messages of a branch, oldest first by default."""
        row, agent = self.find_agent(agent_key, SessionPermission.READ)
        branch_number = parse_branch_number_or_404(number)
        if branch_number != MAIN_BRANCH and not self._branch_exists(agent.id, branch_number):
            raise Http404
        agent_row = SessionAgent(pk=agent.id)
        return self.page_response(
            row,
            lambda _, using: MessageQuery(row, agent_row, branch=branch_number, alias=using),
            branch=branch_number,
        )

    def _branch_exists(self, agent: UUID, number: int) -> bool:
        branches = Branch.objects.using(self.using).filter(agent=agent, number=number)
        # A branch of an import may have messages and no row.
        messages = SessionMessage.objects.using(self.using).filter(agent=agent, branch=number)
        return branches.exists() or messages.exists()
