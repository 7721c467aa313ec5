"""The base of the views of an agent's branches and snapshots."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from rest_framework import viewsets

from django_agent_sessions.models import Session, SessionAgent
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.owners import EVERYBODY
from django_agent_sessions.values.records import AgentRecord, AgentState, BranchRecord

from .access import parse_uuid_or_404
from .base import SessionAPI
from .serializers.branches import MAX_POSITION

_DIGITS = 10


class AgentAPI(SessionAPI, viewsets.GenericViewSet[Any]):
    """A view of objects that belong to an agent, which the URL names by its primary key."""

    lookup_value_converter = "str"
    pagination_class: Any = None

    def find_agent(self, key: str, *needed: SessionPermission) -> tuple[Session, AgentRecord]:
        """Return the session and the agent without its state; raise ``Http404`` if out of reach."""
        primary = parse_uuid_or_404(key)
        row = (
            self.accessible_sessions()
            .defer("metadata", "origin")
            # Filtered by the agent, not only by a name in the URL: it decides the session.
            .filter(pk__in=SessionAgent.objects.filter(pk=primary).values("session"))
            .first()
        )
        if row is None or not self.has_permissions(row, *needed):
            raise Http404
        columns = ("agent_id", "dialect", "created_at", "updated_at")
        agents = SessionAgent.objects.using(self.using).filter(pk=primary)
        values = agents.values_list(*columns).first()
        if values is None:
            raise Http404
        name, dialect, created_at, updated_at = values
        return row, AgentRecord(
            primary, row.pk, name, dialect, AgentState(), created_at, updated_at
        )

    def store(self) -> SessionStore:
        """Return a store of all owners: the session was checked by ``find_agent``."""
        return SessionStore(owner=EVERYBODY, using=self.using)

    def find_branch(self, agent: AgentRecord, number: str | int) -> BranchRecord:
        branch_number = parse_branch_number_or_404(number)
        for branch in self.store().branches.list(agent):
            if branch.number == branch_number:
                return branch
        raise Http404


def parse_branch_number_or_404(value: str | int) -> int:
    """Parse the number of a branch; raise ``Http404`` if no branch can have it."""
    text = str(value)
    # Python refuses to parse thousands of digits.
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS) or int(text) > MAX_POSITION:
        raise Http404
    return int(text)
