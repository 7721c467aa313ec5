"""Orchestrators of a session: the state of a graph or swarm, so that another process goes on."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone

from django_agent_sessions import named, statements
from django_agent_sessions.exceptions import SessionConflictError, StaleSessionError
from django_agent_sessions.fields import CorruptPayload
from django_agent_sessions.ids import new_id, validate_id
from django_agent_sessions.models import SessionMultiAgent
from django_agent_sessions.records import MultiAgentRecord, SessionRecord

from .base import StorePart, insert, repeatable, write
from .cleaning import clean
from .statement_sizes import check_values_size

logger = logging.getLogger("django_agent_sessions")


class MultiAgentStore(StorePart):
    """The part of the store that knows orchestrators."""

    def create_multi_agent(
        self,
        session: SessionRecord,
        multi_agent_id: str,
        state: Any,
        *,
        kind: str = "",
        id: UUID | None = None,  # noqa: A002 - the column's name
        created_at: datetime | None = None,
        updated_at: datetime | None = None,
    ) -> MultiAgentRecord:
        """Makes an orchestrator.

        Args:
            session: Its session.
            multi_agent_id: Its name in the session.
            state: Exact JSON, bytes allowed.
            kind: ``"graph"``, ``"swarm"``, or whatever the SDK calls it.
            id: Its primary key, a UUIDv7; a new one, if not given.
            created_at: When it was made; now, if not given.
            updated_at: When it last changed; ``created_at``, if not given.

        Returns:
            The orchestrator.

        Raises:
            SessionConflictError: The session has an orchestrator of this name.
            SessionNotFoundError: The session was deleted.
            InvalidIdError: The id cannot be one.
            PayloadError: The state is not JSON.
        """
        state = clean(state)
        check_values_size(self.using, state)
        now = created_at or timezone.now()
        row = SessionMultiAgent(
            id=id or new_id(),
            session_id=session.id,
            multi_agent_id=validate_id(multi_agent_id, "multi_agent_id"),
            kind=kind,
            state=state,
            created_at=now,
            updated_at=updated_at or now,
        )
        what = f"creating orchestrator {multi_agent_id!r} in session {session.session_id!r}"
        if not insert(self.using, row, what=what):
            raise SessionConflictError(f"{what}: it exists already")
        return _record(row)

    async def acreate_multi_agent(
        self,
        session: SessionRecord,
        multi_agent_id: str,
        state: Any,
        *,
        kind: str = "",
        id: UUID | None = None,  # noqa: A002 - the column's name
        created_at: datetime | None = None,
        updated_at: datetime | None = None,
    ) -> MultiAgentRecord:
        """Does what :meth:`create_multi_agent` does."""
        return await self._arun(
            self.create_multi_agent,
            session,
            multi_agent_id,
            state,
            kind=kind,
            id=id,
            created_at=created_at,
            updated_at=updated_at,
        )

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
        return [_record(row) for row in named.multi_agents(self.using, session.id)]

    async def alist_multi_agents(self, session: SessionRecord) -> list[MultiAgentRecord]:
        """Does what :meth:`list_multi_agents` does."""
        return await self._arun(self.list_multi_agents, session)

    def update_multi_agent(
        self,
        session: SessionRecord,
        multi_agent_id: str,
        state: Any,
        *,
        epoch: int | None = None,
    ) -> bool:
        """Overwrites an orchestrator's state.

        Args:
            session: Its session.
            multi_agent_id: Its name.
            state: Exact JSON, bytes allowed.
            epoch: Write only if the session's redaction epoch is still this one.

        Returns:
            Whether there is such an orchestrator.

        Raises:
            InvalidIdError: The id cannot be one.
            StaleSessionError: The epoch moved.
            PayloadError: The state is not JSON.
        """
        rows = self._multi_agent(session, multi_agent_id)
        state = clean(state)
        check_values_size(self.using, state)
        what = f"updating orchestrator {multi_agent_id!r}"
        current = rows
        if epoch is not None:
            at_epoch = statements.at_epoch(self.using, session.id, epoch)
            current = rows.filter(session__in=at_epoch)

        def update(unsure: bool) -> int:
            self._lock_session_first(session.id)
            return current.update(state=state, updated_at=timezone.now())

        updated = bool(write(self.using, update, what=what))
        if not updated and epoch is not None and rows.exists():
            raise StaleSessionError(f"{what}: something was redacted; read it again")
        return updated

    async def aupdate_multi_agent(
        self,
        session: SessionRecord,
        multi_agent_id: str,
        state: Any,
        *,
        epoch: int | None = None,
    ) -> bool:
        """Does what :meth:`update_multi_agent` does."""
        return await self._arun(
            self.update_multi_agent, session, multi_agent_id, state, epoch=epoch
        )

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
