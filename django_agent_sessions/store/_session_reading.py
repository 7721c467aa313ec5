"""Read sessions by id, by external id, or as a list."""

from __future__ import annotations

from django.db import connections

from django_agent_sessions.exceptions import ConfigurationError, SessionNotFoundError
from django_agent_sessions.models import Session
from django_agent_sessions.models.querysets import SessionQuerySet
from django_agent_sessions.sql import lookup
from django_agent_sessions.values.ids import validate_id
from django_agent_sessions.values.owners import NOBODY
from django_agent_sessions.values.records import AgentRecord, SessionRecord, Usage

from ._agents import agent_record
from ._base import StorePart, retry_reads


class SessionReader(StorePart):
    @retry_reads
    def find(self, session_id: str) -> SessionRecord | None:
        """Read a session.

        Args:
            session_id: Its id.

        Returns:
            The session; None if it does not exist or belongs to another owner.

        Raises:
            InvalidIdError: The id is invalid.
        """
        row = lookup.get_session(self.using, self.namespace, validate_id(session_id), self.reach)
        return None if row is None else session_record(row)

    async def afind(self, session_id: str) -> SessionRecord | None:
        """Async twin of :meth:`find`."""
        return await self._arun(self.find, session_id)

    def get(self, session_id: str) -> SessionRecord:
        """Read a session that must exist.

        Args:
            session_id: Its id.

        Returns:
            The session.

        Raises:
            SessionNotFoundError: The session does not exist or belongs to another owner.
            InvalidIdError: The id is invalid.
        """
        session = self.find(session_id)
        if session is None:
            raise self._not_found(session_id)
        return session

    async def aget(self, session_id: str) -> SessionRecord:
        """Async twin of :meth:`get`."""
        return await self._arun(self.get, session_id)

    @retry_reads
    def list_sessions(
        self, *, limit: int = 50, after: SessionRecord | None = None
    ) -> list[SessionRecord]:
        """List the sessions that the store reaches in its namespace, most recently active first.

        Args:
            limit: Maximum number of sessions.
            after: The last session of the previous page.

        Returns:
            The sessions.
        """
        rows = self._accessible().filter(namespace=self.namespace).recent_first()
        if self.reach is NOBODY and connections[self.using].vendor == "postgresql":
            # For `owner_id IS NULL`, PostgreSQL reads the owner's index in order only if the owner
            # is in ORDER BY; it scans the sessions of all users otherwise. MariaDB uses the index
            # only without it.
            rows = rows.order_by("owner_id", *rows.query.order_by)
        if after is not None:
            rows = rows.less_recent_than(after.last_activity_at, after.id)
        return [session_record(row) for row in rows[:limit]]

    async def alist_sessions(
        self, *, limit: int = 50, after: SessionRecord | None = None
    ) -> list[SessionRecord]:
        """Async twin of :meth:`list_sessions`."""
        return await self._arun(self.list_sessions, limit=limit, after=after)

    @retry_reads
    def find_external(self, external_id: str) -> SessionRecord | None:
        """Read a session by an id that a client chose.

        Args:
            external_id: The id, unique among one owner's sessions in all namespaces.

        Returns:
            The session; None if the owner has none with this id.

        Raises:
            InvalidIdError: The id is invalid.
            ConfigurationError: The store has no owner.
        """
        if self.owner_id is None:
            raise ConfigurationError(
                "external ids are unique per owner; pass an owner to the store"
            )
        rows = self._accessible().filter(external_id=validate_id(external_id, "external_id"))
        row = rows.first()
        return None if row is None else session_record(row)

    async def afind_external(self, external_id: str) -> SessionRecord | None:
        """Async twin of :meth:`find_external`."""
        return await self._arun(self.find_external, external_id)

    @retry_reads
    def find_agent(
        self, session_id: str, agent_id: str
    ) -> tuple[SessionRecord, AgentRecord] | None:
        """Read a session and one of its agents, in one query.

        Args:
            session_id: The session's id.
            agent_id: The agent's id.

        Returns:
            The session and the agent; None if either does not exist.

        Raises:
            SessionNotFoundError: The session belongs to another owner.
            InvalidIdError: An id is invalid.
        """
        found = lookup.session_and_agent(
            self.using,
            self.namespace,
            validate_id(session_id),
            validate_id(agent_id, "agent_id"),
        )
        if found is None:
            _ = self.reach  # Raises for a user who cannot own sessions.
            return None
        session, agent = found
        if not self._reaches(session.owner_id):
            raise self._not_found(session_id)
        return None if agent is None else (session_record(session), agent_record(agent))

    async def afind_agent(
        self, session_id: str, agent_id: str
    ) -> tuple[SessionRecord, AgentRecord] | None:
        """Async twin of :meth:`find_agent`."""
        return await self._arun(self.find_agent, session_id, agent_id)

    @retry_reads
    def usage(self, session_id: str) -> Usage:
        """Return a session's counters: one row, however long the conversation is.

        Args:
            session_id: Its id.

        Returns:
            Messages and tokens of all its agents, as of the end of the last turn.

        Raises:
            SessionNotFoundError: The session does not exist or belongs to another owner.
        """
        return self.get(session_id).usage

    async def ausage(self, session_id: str) -> Usage:
        """Async twin of :meth:`usage`."""
        return await self._arun(self.usage, session_id)

    def _all(self) -> SessionQuerySet:
        return Session.objects.using(self.using)

    def _accessible(self) -> SessionQuerySet:
        return self._all().owned_by(self.reach)

    def _not_found(self, session_id: str) -> SessionNotFoundError:
        hint = ""
        if self.reach is NOBODY:
            hint = (
                " among the sessions without an owner; if it belongs to a user, pass owner=user, "
                "or owner=EVERYBODY in code that may access all sessions"
            )
        return SessionNotFoundError(f"session {session_id!r} does not exist{hint}")


def session_record(row: Session) -> SessionRecord:
    return SessionRecord(
        id=row.id,
        session_id=row.session_id,
        namespace=row.namespace,
        session_type=row.session_type,
        owner_id=row.owner_id,
        external_id=row.external_id,
        title=row.title,
        metadata=row.metadata,
        redaction_epoch=row.redaction_epoch,
        usage=Usage(row.message_count, row.input_tokens, row.output_tokens),
        legal_hold=row.legal_hold,
        created_at=row.created_at,
        updated_at=row.updated_at,
        last_activity_at=row.last_activity_at,
        archived_at=row.archived_at,
        expires_at=row.expires_at,
    )
