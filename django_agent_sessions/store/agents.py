"""Agents of a session, and the state that an SDK keeps about them."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone

from django_agent_sessions import named, statements, transcripts
from django_agent_sessions.exceptions import (
    SessionConflictError,
    SessionNotFoundError,
    StaleSessionError,
)
from django_agent_sessions.fields import CorruptPayload
from django_agent_sessions.ids import new_id, validate_id
from django_agent_sessions.models import SessionAgent
from django_agent_sessions.records import AgentRecord, AgentState, SessionRecord

from .base import StorePart, insert, repeatable, write
from .cleaning import clean
from .statement_sizes import check_values_size

logger = logging.getLogger("django_agent_sessions")

DEFAULT_AGENT = "default"
"""What the one agent is called where an SDK knows no agents."""


class AgentStore(StorePart):
    """The part of the store that knows agents."""

    def open_agent(
        self,
        session: SessionRecord,
        agent_id: str = DEFAULT_AGENT,
        *,
        dialect: str = transcripts.OPENAI,
        data: AgentState | None = None,
    ) -> AgentRecord:
        """Finds an agent, or makes it.

        Args:
            session: Its session.
            agent_id: Its name in the session.
            dialect: The message format of an agent that is made. The default reads chat messages
                (``{"role": …, "content": …}``) and Responses items.
            data: The state of an agent that is made.

        Returns:
            The agent.

        Raises:
            InvalidIdError: The id cannot be one.
            SessionNotFoundError: The session was deleted.
            PayloadError: The state is not JSON.
        """
        found = self.read_agent(session, agent_id)
        if found is not None:
            return found
        made = self._insert_agent(session, agent_id, dialect, data or AgentState())
        if made is None:
            made = self.read_agent(session, agent_id)
        if made is None:
            raise _gone(session, agent_id)
        return made

    async def aopen_agent(
        self,
        session: SessionRecord,
        agent_id: str = DEFAULT_AGENT,
        *,
        dialect: str = transcripts.OPENAI,
        data: AgentState | None = None,
    ) -> AgentRecord:
        """Does what :meth:`open_agent` does."""
        return await self._arun(self.open_agent, session, agent_id, dialect=dialect, data=data)

    def create_agent(
        self,
        session: SessionRecord,
        agent_id: str = DEFAULT_AGENT,
        *,
        dialect: str = transcripts.OPENAI,
        data: AgentState | None = None,
        id: UUID | None = None,  # noqa: A002 - the column's name
        created_at: datetime | None = None,
        updated_at: datetime | None = None,
    ) -> AgentRecord:
        """Makes an agent.

        Args:
            session: Its session.
            agent_id: Its name in the session.
            dialect: The message format of its payloads.
            data: Its state.
            id: Its primary key, a UUIDv7; a new one, if not given.
            created_at: When it was made; now, if not given.
            updated_at: When it last changed; ``created_at``, if not given.

        Returns:
            The agent.

        Raises:
            SessionConflictError: The session has an agent of this name.
            SessionNotFoundError: The session was deleted.
            InvalidIdError: The id cannot be one.
            PayloadError: The state is not JSON.
        """
        made = self._insert_agent(
            session, agent_id, dialect, data or AgentState(), id, created_at, updated_at
        )
        if made is None:
            raise SessionConflictError(
                f"agent {agent_id!r} exists already in session {session.session_id!r}"
            )
        return made

    async def acreate_agent(
        self,
        session: SessionRecord,
        agent_id: str = DEFAULT_AGENT,
        *,
        dialect: str = transcripts.OPENAI,
        data: AgentState | None = None,
        id: UUID | None = None,  # noqa: A002 - the column's name
        created_at: datetime | None = None,
        updated_at: datetime | None = None,
    ) -> AgentRecord:
        """Does what :meth:`create_agent` does."""
        return await self._arun(
            self.create_agent,
            session,
            agent_id,
            dialect=dialect,
            data=data,
            id=id,
            created_at=created_at,
            updated_at=updated_at,
        )

    @repeatable
    def read_agent(self, session: SessionRecord, agent_id: str) -> AgentRecord | None:
        """Reads an agent.

        Args:
            session: Its session.
            agent_id: Its name.

        Returns:
            The agent; None if there is none.

        Raises:
            InvalidIdError: The id cannot be one.
        """
        row = named.agent(self.using, session.id, validate_id(agent_id, "agent_id"))
        return None if row is None else agent_record(row)

    async def aread_agent(self, session: SessionRecord, agent_id: str) -> AgentRecord | None:
        """Does what :meth:`read_agent` does."""
        return await self._arun(self.read_agent, session, agent_id)

    @repeatable
    def list_agents(self, session: SessionRecord) -> list[AgentRecord]:
        """Lists a session's agents.

        Args:
            session: The session.

        Returns:
            The agents, the oldest first.
        """
        return [agent_record(row) for row in named.agents(self.using, session.id)]

    async def alist_agents(self, session: SessionRecord) -> list[AgentRecord]:
        """Does what :meth:`list_agents` does."""
        return await self._arun(self.list_agents, session)

    def update_agent(
        self, agent: AgentRecord, data: AgentState, *, epoch: int | None = None
    ) -> None:
        """Overwrites an agent's state.

        Args:
            agent: The agent.
            data: All of its state.
            epoch: Write only if the session's redaction epoch is still this one.

        Raises:
            SessionNotFoundError: The agent was deleted.
            StaleSessionError: The epoch moved.
            PayloadError: The state is not JSON.
        """
        what = f"updating agent {agent.agent_id!r}"
        data = _cleaned(data)
        _check_size(self.using, data)

        def update(unsure: bool) -> int:
            self._lock_session_first(agent.session)
            rows = self._agents().filter(pk=agent.id)
            if epoch is not None:
                rows = rows.filter(
                    session__in=statements.at_epoch(self.using, agent.session, epoch)
                )
            return rows.update(
                state=data.state,
                conversation_manager_state=data.conversation_manager_state,
                internal_state=data.internal_state,
                window=data.window,
                updated_at=timezone.now(),
            )

        if not write(self.using, update, what=what):
            if epoch is not None and self._agents().filter(pk=agent.id).exists():
                raise StaleSessionError(f"{what}: something was redacted; read it again")
            raise SessionNotFoundError(f"{what}: it was deleted")

    async def aupdate_agent(
        self, agent: AgentRecord, data: AgentState, *, epoch: int | None = None
    ) -> None:
        """Does what :meth:`update_agent` does."""
        await self._arun(self.update_agent, agent, data, epoch=epoch)

    def _agents(self) -> QuerySet[SessionAgent]:
        return SessionAgent.objects.using(self.using)

    def _insert_agent(
        self,
        session: SessionRecord,
        agent_id: str,
        dialect: str,
        data: AgentState,
        key: UUID | None = None,
        created_at: datetime | None = None,
        updated_at: datetime | None = None,
    ) -> AgentRecord | None:
        data = _cleaned(data)
        _check_size(self.using, data)
        now = created_at or timezone.now()
        row = SessionAgent(
            id=key or new_id(),
            session_id=session.id,
            agent_id=validate_id(agent_id, "agent_id"),
            dialect=dialect,
            state=data.state,
            conversation_manager_state=data.conversation_manager_state,
            internal_state=data.internal_state,
            window=data.window,
            created_at=now,
            updated_at=updated_at or now,
        )
        what = f"creating agent {agent_id!r} in session {session.session_id!r}"
        return agent_record(row) if insert(self.using, row, what=what) else None


def _gone(session: SessionRecord, agent_id: str) -> SessionNotFoundError:
    return SessionNotFoundError(f"session {session.session_id!r} has no agent {agent_id!r}")


def _cleaned(data: AgentState) -> AgentState:
    return replace(
        data,
        state=clean(data.state, free=True),
        conversation_manager_state=clean(data.conversation_manager_state),
        internal_state=clean(data.internal_state),
    )


def _check_size(using: str, data: AgentState) -> None:
    check_values_size(
        using, data.state, data.conversation_manager_state, data.internal_state, data.window
    )


def agent_record(row: SessionAgent) -> AgentRecord:
    """Makes the record of an agent."""

    def sound(value: Any, instead: Any) -> Any:
        if not isinstance(value, CorruptPayload):
            return value
        logger.warning("state of agent %s (row %s) is corrupt and was left out", row, row.id)
        return instead

    return AgentRecord(
        id=row.id,
        session=row.session_id,
        agent_id=row.agent_id,
        dialect=row.dialect,
        data=AgentState(
            state=sound(row.state, {}),
            conversation_manager_state=sound(row.conversation_manager_state, {}),
            internal_state=sound(row.internal_state, {}),
            window=sound(row.window, None),
        ),
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def agent_without_state(row: SessionAgent) -> AgentRecord:
    """Makes the record of an agent of which only the rest is needed."""
    return AgentRecord(
        id=row.pk,
        session=row.session_id,
        agent_id=row.agent_id,
        dialect=row.dialect,
        data=AgentState(),
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
