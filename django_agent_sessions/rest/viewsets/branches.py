"""Branches of an agent's conversation: going back in time, and to what was left behind."""

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
from django_agent_sessions.permissions import Allowed
from django_agent_sessions.records import AgentRecord, BranchRecord
from django_agent_sessions.rest import throttles
from django_agent_sessions.rest.agents import OfAgent, number_of
from django_agent_sessions.rest.branch_pages import BranchMessagePagination, BranchPagination
from django_agent_sessions.rest.changing import alone, place_of, record
from django_agent_sessions.rest.etags import require_match, tagged
from django_agent_sessions.rest.examples import CREATE_BRANCH, REWIND
from django_agent_sessions.rest.problems import Conflict, NotThere
from django_agent_sessions.rest.queries import refuse_unknown
from django_agent_sessions.rest.schema import (
    AGENT_KEY,
    ETAG,
    IF_MATCH,
    IF_NONE_MATCH,
    SCOPED,
    UNCHANGED,
    answer,
    described,
    problems,
)
from django_agent_sessions.rest.serializers.branches import (
    MOST,
    BranchCreateSerializer,
    BranchSerializer,
    ComparisonSerializer,
    RewindSerializer,
    SetAsideSerializer,
)
from django_agent_sessions.rest.serializers.messages import MessageSerializer
from django_agent_sessions.windows import Scope

from .conversations import MessageList

_LEFT, _RIGHT = "left", "right"
_NO_BRANCH = "The agent has no such branch."

_NUMBER = OpenApiParameter(
    "number",
    {"type": "integer", "minimum": 0, "maximum": MOST},
    "path",
    description="The branch's number; 0 is the main branch.",
)


@described(parameters=[*SCOPED, AGENT_KEY], tags=["Branches"])
class RewindViewSet(OfAgent):
    """Going back in a conversation."""

    queryset = SessionAgent.objects.none()
    serializer_class = RewindSerializer
    lookup_url_kwarg = "agent_key"

    @described(
        operation_id="agents_rewind",
        request=RewindSerializer,
        responses={
            200: answer(SetAsideSerializer, "What was said later, kept as a side branch."),
            **problems(400, 404, 409, 413),
        },
        examples=REWIND,
    )
    @action(detail=True, methods=["post"], throttle_scope=throttles.BRANCH)
    def rewind(self, request: Any, agent_key: str) -> Response:
        """Goes back to a message; what was said after it is kept as a side branch.

        The agent's state goes back, too, where a snapshot has it as of then. Asked again, for the
        message's id, it finds nothing to do. ``to: -1`` lets nothing stay.
        """
        row, agent = self.find_agent(agent_key, Allowed.READ, Allowed.CHANGE)
        given = RewindSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        wanted = given.validated_data

        def rewind(session: Session) -> BranchRecord | None:
            # Found while nobody else can move it.
            _, position = place_of(self.using, agent.id, "to", wanted["to"], MAIN_BRANCH)
            made = self.store().rewind(agent, position, name=wanted.get("name"))
            if made is not None:
                figures = {"branch": made.number, "set_aside": made.length - made.start}
                record(self, AuditEvent.Action.REWOUND, row, agent.id, **figures)
            return made

        made = alone(self.using, row, rewind, "rewinding")
        return Response(SetAsideSerializer({"branch": made}).data)


@described(parameters=[*SCOPED, AGENT_KEY], tags=["Branches"])
class BranchViewSet(OfAgent):
    """The branches of an agent's conversation."""

    queryset = SessionAgent.objects.none()
    serializer_class = BranchSerializer
    pagination_class = BranchPagination
    lookup_url_kwarg = "number"

    def get_throttles(self) -> list[Any]:
        """Counts what copies messages apart."""
        if self.action == "create":
            self.throttle_scope = throttles.BRANCH
        return super().get_throttles()

    @described(
        operation_id="branches_list",
        responses={200: answer(BranchSerializer(many=True), "A page."), **problems(400, 404)},
    )
    def list(self, request: Any, agent_key: str) -> Response:
        """Lists the branches: the main one, and the others in order of their numbers."""
        row, agent = self.find_agent(agent_key, Allowed.READ)
        paginator: Any = self.paginator
        page = paginator.read(request, lambda: self.store().branches(agent), view=self)
        self.record_reading(row, agent.id, view="branches", branches=len(page))
        response: Response = paginator.get_paginated_response(self._shown(page, many=True))
        return response

    @described(
        operation_id="branches_create",
        request=BranchCreateSerializer,
        responses={
            201: answer(BranchSerializer, "The branch that was made."),
            **problems(400, 404, 409, 413),
        },
        examples=CREATE_BRANCH,
    )
    def create(self, request: Any, agent_key: str) -> Response:
        """Makes a side branch that begins like another, for an agent to go on from.

        With a ``name`` of its own it is made once, however often it is asked for: a name that is
        taken is a 409.
        """
        row, agent = self.find_agent(agent_key, Allowed.READ, Allowed.CHANGE)
        given = BranchCreateSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        wanted = given.validated_data

        def create(session: Session) -> BranchRecord:
            source, upto = wanted.get("source"), None
            if source is not None and not self._is_branch(agent, source):
                raise NotThere("source", _NO_BRANCH)
            if "at" in wanted:
                source, position = place_of(self.using, agent.id, "at", wanted["at"], source)
                upto = position + 1
            made = self.store().create_branch(
                agent, name=wanted.get("name"), source=source or MAIN_BRANCH, upto=upto
            )
            self.record_reading(row, agent.id, view="branch", branch=made.number)
            return made

        made = alone(self.using, row, create, "branching")
        return Response(self._shown(made), status=status.HTTP_201_CREATED)

    @described(
        operation_id="branches_retrieve",
        parameters=[_NUMBER, IF_NONE_MATCH, ETAG],
        responses={200: answer(BranchSerializer, "The branch."), **UNCHANGED, **problems(404)},
    )
    def retrieve(self, request: Any, agent_key: str, number: str) -> Any:
        """Gives a branch.

        The ``ETag`` of the answer is for ``If-Match`` when it is switched to or deleted: numbers
        are given anew.
        """
        row, agent = self.find_agent(agent_key, Allowed.READ)
        found = self.find_branch(agent, number)
        self.record_reading(row, agent.id, view="branch", branch=found.number)
        return tagged(request, self._shown(found))

    @described(
        operation_id="branches_delete",
        parameters=[_NUMBER, IF_MATCH],
        responses={
            204: OpenApiResponse(description="It is gone."),
            **problems(400, 404, 409, 412),
        },
    )
    def destroy(self, request: Any, agent_key: str, number: str) -> Response:
        """Deletes a side branch with its messages, unless the session is under legal hold."""
        row, agent = self.find_agent(agent_key, Allowed.READ, Allowed.CHANGE, Allowed.DELETE)

        def delete(session: Session) -> None:
            found = self._side(agent, number, "It cannot be deleted. Switch to another first.")
            deleted = self.store().delete_branch(agent, found.number)
            figures = {"branch": found.number, "messages": deleted}
            record(self, AuditEvent.Action.BRANCH_DELETED, row, agent.id, **figures)

        alone(self.using, row, delete, "deleting a branch")
        return Response(status=status.HTTP_204_NO_CONTENT)

    @described(
        operation_id="branches_switch",
        parameters=[_NUMBER, IF_MATCH],
        request=None,
        responses={
            200: answer(SetAsideSerializer, "What was the main branch, as a side branch."),
            **problems(400, 404, 409, 412),
        },
    )
    @action(detail=True, methods=["post"], throttle_scope=throttles.BRANCH, pagination_class=None)
    def switch(self, request: Any, agent_key: str, number: str) -> Response:
        """Makes a side branch the main one, and the main one a side branch of a new number.

        The agent's state follows, where a snapshot has it as of then.
        """
        row, agent = self.find_agent(agent_key, Allowed.READ, Allowed.CHANGE)

        def switch(session: Session) -> BranchRecord:
            found = self._side(agent, number, "It is where the agent goes on already.")
            made = self.store().switch_branch(agent, found.number)
            figures = {"branch": found.number, "left": made.number}
            record(self, AuditEvent.Action.RESTORED, row, agent.id, **figures)
            return made

        made = alone(self.using, row, switch, "switching branches")
        return Response(SetAsideSerializer({"branch": made}).data)

    @described(
        operation_id="branches_compare",
        parameters=[
            OpenApiParameter(
                name,
                {"type": "integer", "minimum": 0, "maximum": MOST, "default": MAIN_BRANCH},
                description="The number of a branch; the main one by default.",
            )
            for name in (_LEFT, _RIGHT)
        ],
        responses={200: answer(ComparisonSerializer, "What they share."), **problems(400, 404)},
    )
    @action(detail=False, methods=["get"], pagination_class=None)
    def compare(self, request: Any, agent_key: str) -> Response:
        """Tells how far two branches are the same."""
        refuse_unknown(request, [_LEFT, _RIGHT])
        row, agent = self.find_agent(agent_key, Allowed.READ)
        left, right = (self._asked(request, name) for name in (_LEFT, _RIGHT))
        lengths = {one.number: one.length for one in self.store().branches(agent)}
        for name, number in ((_LEFT, left), (_RIGHT, right)):
            if number not in lengths:
                raise NotThere(name, _NO_BRANCH)
        common = self.store().common_length(agent, left, right)
        self.record_reading(row, agent.id, view="compare", left=left, right=right)
        found = {"common": common, "left": lengths[left], "right": lengths[right]}
        return Response(ComparisonSerializer(found).data)

    def _side(self, agent: AgentRecord, number: str, main: str) -> BranchRecord:
        """Finds a side branch that is to be changed."""
        found = self.find_branch(agent, number)
        require_match(self.request, self._shown(found))
        if found.number == MAIN_BRANCH:
            raise Conflict(f"This is the main branch. {main}")
        return found

    def _is_branch(self, agent: AgentRecord, number: int) -> bool:
        return any(one.number == number for one in self.store().branches(agent))

    def _asked(self, request: Any, name: str) -> int:
        given = request.query_params.get(name, str(MAIN_BRANCH))
        try:
            return number_of(given)
        except Http404:
            raise ValidationError({name: ["Give the number of a branch."]}) from None

    def _shown(self, found: Any, *, many: bool = False) -> Any:
        return self.get_serializer(found, many=many).data


@described(parameters=[*SCOPED, AGENT_KEY, _NUMBER], tags=["Branches"])
class BranchMessageViewSet(OfAgent, MessageList):
    """What was said on one branch of an agent's conversation."""

    queryset = SessionMessage.objects.none()
    serializer_class = MessageSerializer
    pagination_class = BranchMessagePagination

    @described(
        operation_id="branches_messages",
        parameters=[
            OpenApiParameter("raw", bool, description="Also give the payloads as they are.")
        ],
        responses={
            200: answer(MessageSerializer(many=True), "A page of messages."),
            **problems(400, 404),
        },
    )
    def list(self, request: Any, agent_key: str, number: str) -> Response:
        """Lists the messages of a branch, from its beginning; redacted where they were redacted."""
        row, agent = self.find_agent(agent_key, Allowed.READ)
        wanted = number_of(number)
        if wanted != MAIN_BRANCH and not self._is_there(agent.id, wanted):
            raise Http404
        one = SessionAgent(pk=agent.id)
        return self.page_of(
            row, lambda _, using: Scope(row, one, branch=wanted, alias=using), branch=wanted
        )

    def _is_there(self, agent: UUID, number: int) -> bool:
        branches = Branch.objects.using(self.using).filter(agent=agent, number=number)
        # One that an import made need not have a row.
        messages = SessionMessage.objects.using(self.using).filter(agent=agent, branch=number)
        return branches.exists() or messages.exists()
