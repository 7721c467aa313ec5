"""Views of what belongs to an agent."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from rest_framework import viewsets

from django_agent_sessions.models import Session, SessionAgent
from django_agent_sessions.owners import EVERYBODY
from django_agent_sessions.permissions import Allowed
from django_agent_sessions.records import AgentRecord, AgentState, BranchRecord
from django_agent_sessions.store import SessionStore

from .access import uuid_of
from .base import SessionAPI
from .serializers.branches import MOST

_DIGITS = 10


class OfAgent(SessionAPI, viewsets.GenericViewSet[Any]):
    """A view of something that belongs to an agent, found by the agent's primary key."""

    lookup_value_converter = "str"
    pagination_class: Any = None

    def find_agent(self, key: str, *needed: Allowed) -> tuple[Session, AgentRecord]:
        """Finds an agent of a session that the user reaches.

        Args:
            key: The agent's primary key, or anything.
            *needed: What the user is to be allowed to do with its session.

        Returns:
            The session, and the agent without its state.

        Raises:
            Http404: There is none, or not for this user, or the user may not.
        """
        primary = uuid_of(key)
        row = (
            self.reachable_sessions()
            .defer("metadata", "origin")
            # Not a join by name only: the agent decides which session it is.
            .filter(pk__in=SessionAgent.objects.filter(pk=primary).values("session"))
            .first()
        )
        if row is None or not self.allows(row, *needed):
            raise Http404
        columns = ("agent_id", "dialect", "created_at", "updated_at")
        agents = SessionAgent.objects.using(self.using).filter(pk=primary)
        found = agents.values_list(*columns).first()
        if found is None:
            raise Http404
        name, dialect, created_at, updated_at = found
        return row, AgentRecord(
            primary, row.pk, name, dialect, AgentState(), created_at, updated_at
        )

    def store(self) -> SessionStore:
        """Gives a store for a session that was found: it reaches all."""
        return SessionStore(owner=EVERYBODY, using=self.using)

    def find_branch(self, agent: AgentRecord, number: str | int) -> BranchRecord:
        """Finds a branch.

        Args:
            agent: The agent.
            number: The number, or any text.

        Returns:
            The branch.

        Raises:
            Http404: There is none.
        """
        wanted = number_of(number)
        for branch in self.store().branches(agent):
            if branch.number == wanted:
                return branch
        raise Http404


def number_of(given: str | int) -> int:
    """Reads the number of a branch.

    Args:
        given: A number, or any text.

    Returns:
        The number.

    Raises:
        Http404: It is none that a branch can have.
    """
    text = str(given)
    # Python refuses to read thousands of digits.
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS) or int(text) > MOST:
        raise Http404
    return int(text)
