"""Orchestrators of a session: the state of a graph or swarm, so that another process goes on."""

from __future__ import annotations

import logging
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from django_agent_sessions.exceptions import SessionConflictError
from django_agent_sessions.fields import CorruptPayload
from django_agent_sessions.ids import validate_id
from django_agent_sessions.models import SessionMultiAgent
from django_agent_sessions.records import MultiAgentRecord, SessionRecord

from .base import StorePart, insert, repeatable, write
from .vendors import check_values_size

logger = logging.getLogger("django_agent_sessions")


class MultiAgentStore(StorePart):
    """The part of the store that knows orchestrators."""

    def create_multi_agent(
        self, session: SessionRecord, multi_agent_id: str, state: Any, *, kind: str = ""
    ) -> MultiAgentRecord:
        """Makes an orchestrator.

        Args:
            session: Its session.
            multi_agent_id: Its name in the session.
            state: Exact JSON, bytes allowed.
            kind: ``"graph"``, ``"swarm"``, or whatever the SDK calls it.

        Returns:
            The orchestrator.

        Raises:
            SessionConflictError: The session has an orchestrator of this name.
            SessionNotFoundError: The session was deleted.
            InvalidIdError: The id cannot be one.
            PayloadError: The state is not JSON.
        """
        check_values_size(self.using, state)
        now = timezone.now()
        row = SessionMultiAgent(
            session_id=session.id,
            multi_agent_id=validate_id(multi_agent_id, "multi_agent_id"),
            kind=kind,
            state=state,
            created_at=now,
            updated_at=now,
        )
        what = f"creating orchestrator {multi_agent_id!r} in session {session.session_id!r}"
        if not insert(self.using, row, what=what):
            raise SessionConflictError(f"{what}: it exists already")
        return _record(row)

    async def acreate_multi_agent(
        self, session: SessionRecord, multi_agent_id: str, state: Any, *, kind: str = ""
    ) -> MultiAgentRecord:
        """Does what :meth:`create_multi_agent` does."""
        return await self._arun(self.create_multi_agent, session, multi_agent_id, state, kind=kind)

    @repeatable
    def read_multi_agent(
        self, session: SessionRecord, multi_agent_id: str
    ) -> MultiAgentRecord | None:
        """Reads an orchestrator.

        Args:
            session: Its session.
            multi_agent_id: Its name.

        Returns:
            The orchestrator; None if there is none.

        Raises:
            InvalidIdError: The id cannot be one.
        """
        row = self._multi_agent(session, multi_agent_id).first()
        return None if row is None else _record(row)

    async def aread_multi_agent(
        self, session: SessionRecord, multi_agent_id: str
    ) -> MultiAgentRecord | None:
        """Does what :meth:`read_multi_agent` does."""
        return await self._arun(self.read_multi_agent, session, multi_agent_id)

    @repeatable
    def list_multi_agents(self, session: SessionRecord) -> list[MultiAgentRecord]:
        """Lists a session's orchestrators.

        Args:
            session: The session.

        Returns:
            The orchestrators, the oldest first.
        """
        rows = SessionMultiAgent.objects.using(self.using).filter(session=session.id)
        return [_record(row) for row in rows.order_by("id")]

    async def alist_multi_agents(self, session: SessionRecord) -> list[MultiAgentRecord]:
        """Does what :meth:`list_multi_agents` does."""
        return await self._arun(self.list_multi_agents, session)

    def update_multi_agent(self, session: SessionRecord, multi_agent_id: str, state: Any) -> bool:
        """Overwrites an orchestrator's state.

        Args:
            session: Its session.
            multi_agent_id: Its name.
            state: Exact JSON, bytes allowed.

        Returns:
            Whether there is such an orchestrator.

        Raises:
            InvalidIdError: The id cannot be one.
            PayloadError: The state is not JSON.
        """
        rows = self._multi_agent(session, multi_agent_id)
        check_values_size(self.using, state)

        def update(unsure: bool) -> int:
            return rows.update(state=state, updated_at=timezone.now())

        return bool(write(self.using, update, what=f"updating orchestrator {multi_agent_id!r}"))

    async def aupdate_multi_agent(
        self, session: SessionRecord, multi_agent_id: str, state: Any
    ) -> bool:
        """Does what :meth:`update_multi_agent` does."""
        return await self._arun(self.update_multi_agent, session, multi_agent_id, state)

    def _multi_agent(
        self, session: SessionRecord, multi_agent_id: str
    ) -> QuerySet[SessionMultiAgent]:
        return SessionMultiAgent.objects.using(self.using).filter(
            session=session.id, multi_agent_id=validate_id(multi_agent_id, "multi_agent_id")
        )


def _record(row: SessionMultiAgent) -> MultiAgentRecord:
    state = row.state
    if isinstance(state, CorruptPayload):
        logger.warning("state of orchestrator %s (row %s) is corrupt and was left out", row, row.id)
        state = {}
    return MultiAgentRecord(
        id=row.id,
        session=row.session_id,
        multi_agent_id=row.multi_agent_id,
        kind=row.kind,
        state=state,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
