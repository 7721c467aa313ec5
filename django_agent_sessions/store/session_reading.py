"""Reading sessions: by their names, by the ids that clients chose, or a list of them."""

from __future__ import annotations

from django.db import connections

from django_agent_sessions import named
from django_agent_sessions.exceptions import ConfigurationError, SessionNotFoundError
from django_agent_sessions.ids import validate_id
from django_agent_sessions.models import Session
from django_agent_sessions.owners import NOBODY
from django_agent_sessions.querysets import SessionQuerySet
from django_agent_sessions.records import AgentRecord, SessionRecord, Usage

from .agents import agent_record
from .base import StorePart, repeatable


class SessionReader(StorePart):
    """The part of the store that reads sessions."""

    @repeatable
    def find(self, session_id: str) -> SessionRecord | None:
        """Reads a session.

        Args:
            session_id: Its name.

        Returns:
            The session; None if there is none, or it is not this owner's.

        Raises:
            InvalidIdError: The id cannot be one.
        """
        row = named.session(self.using, self.namespace, validate_id(session_id), self.reach)
        return None if row is None else session_record(row)

    async def afind(self, session_id: str) -> SessionRecord | None:
        """Does what :meth:`find` does."""
        return await self._arun(self.find, session_id)

    def get(self, session_id: str) -> SessionRecord:
        """Reads a session that must exist.

        Args:
            session_id: Its name.

        Returns:
            The session.

        Raises:
            SessionNotFoundError: There is no such session, or it is not this owner's.
            InvalidIdError: The id cannot be one.
        """
        found = self.find(session_id)
        if found is None:
            raise self._not_found(session_id)
        return found

    async def aget(self, session_id: str) -> SessionRecord:
        """Does what :meth:`get` does."""
        return await self._arun(self.get, session_id)

    @repeatable
    def list_sessions(
        self, *, limit: int = 50, after: SessionRecord | None = None
    ) -> list[SessionRecord]:
        """Lists sessions, the most recently active first.

        Args:
            limit: How many at the most.
            after: The last one of the page before.

        Returns:
            The sessions that the store reaches in its namespace.
        """
        found = self._reachable().filter(namespace=self.namespace).recent_first()
        if self.reach is NOBODY and connections[self.using].vendor == "postgresql":
            # It does not conclude from IS NULL that the index of the owner is in this order, and
            # would pass over the more recent sessions of all users. MariaDB concludes it only so.
            found = found.order_by("owner_id", *found.query.order_by)
        if after is not None:
            found = found.less_recent_than(after.last_activity_at, after.id)
        return [session_record(row) for row in found[:limit]]

    async def alist_sessions(
        self, *, limit: int = 50, after: SessionRecord | None = None
    ) -> list[SessionRecord]:
        """Does what :meth:`list_sessions` does."""
        return await self._arun(self.list_sessions, limit=limit, after=after)

    @repeatable
    def find_external(self, external_id: str) -> SessionRecord | None:
        """Reads a session by the id that a client chose.

        Args:
            external_id: The id, unique among one owner's sessions, in whatever namespace.

        Returns:
            The session; None if the owner has none of this id.

        Raises:
            InvalidIdError: The id cannot be one.
            ConfigurationError: The store has no owner: such an id is somebody's own.
        """
        if self.owner_id is None:
            raise ConfigurationError("an external id belongs to an owner: give the store one")
        rows = self._reachable().filter(external_id=validate_id(external_id, "external_id"))
        row = rows.first()
        return None if row is None else session_record(row)

    async def afind_external(self, external_id: str) -> SessionRecord | None:
        """Does what :meth:`find_external` does."""
        return await self._arun(self.find_external, external_id)

    @repeatable
    def find_agent(
        self, session_id: str, agent_id: str
    ) -> tuple[SessionRecord, AgentRecord] | None:
        """Finds an agent by the names of its session and its own, in one statement.

        Args:
            session_id: The session's name.
            agent_id: The agent's.

        Returns:
            The session and the agent; None if there is no such session, or no such agent in it.

        Raises:
            SessionNotFoundError: The session is not this owner's.
            InvalidIdError: An id cannot be one.
        """
        found = named.session_and_agent(
            self.using,
            self.namespace,
            validate_id(session_id),
            validate_id(agent_id, "agent_id"),
        )
        if found is None:
            _ = self.reach  # Who can own nothing is refused where there is nothing, too.
            return None
        session, agent = found
        if not self._reaches(session.owner_id):
            raise self._not_found(session_id)
        return None if agent is None else (session_record(session), agent_record(agent))

    async def afind_agent(
        self, session_id: str, agent_id: str
    ) -> tuple[SessionRecord, AgentRecord] | None:
        """Does what :meth:`find_agent` does."""
        return await self._arun(self.find_agent, session_id, agent_id)

    @repeatable
    def usage(self, session_id: str) -> Usage:
        """Sums up a session: one row's counters, however long the conversation is.

        Args:
            session_id: Its name.

        Returns:
            Messages and tokens of all its agents, as of the end of the last turn.

        Raises:
            SessionNotFoundError: There is no such session, or it is not this owner's.
        """
        return self.get(session_id).usage

    async def ausage(self, session_id: str) -> Usage:
        """Does what :meth:`usage` does."""
        return await self._arun(self.usage, session_id)

    def _all(self) -> SessionQuerySet:
        return Session.objects.using(self.using)

    def _reachable(self) -> SessionQuerySet:
        return self._all().owned_by(self.reach)

    def _not_found(self, session_id: str) -> SessionNotFoundError:
        """Makes the error for a session that does not exist, or is not reached."""
        hint = ""
        if self.reach is NOBODY:
            hint = (
                " without an owner; if it belongs to a user, pass owner=user, or owner=EVERYBODY "
                "in code that may reach every session"
            )
        return SessionNotFoundError(f"there is no session {session_id!r}{hint}")


def session_record(row: Session) -> SessionRecord:
    """Makes the record of a session.

    Args:
        row: Its row.

    Returns:
        What is known of it.
    """
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
