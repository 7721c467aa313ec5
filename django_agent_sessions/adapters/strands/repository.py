"""Strands' ``SessionRepository`` on the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from strands.multiagent.base import MultiAgentBase
from strands.session.session_repository import SessionRepository
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage

from django_agent_sessions import bridge, transcripts
from django_agent_sessions.exceptions import (
    SessionConflictError,
    SessionNotFoundError,
    StaleSessionError,
)
from django_agent_sessions.owners import NOBODY
from django_agent_sessions.records import AgentRecord, SessionRecord
from django_agent_sessions.store import SessionStore

from . import formats
from .restoring import check_dialect
from .scrubbing import KnownStates, as_state

R = TypeVar("R")


class DjangoSessionRepository(SessionRepository):
    """Sessions in the project's database, one call at a time.

    Each method may be called from any thread, with a running event loop or without; the loop then
    waits. :class:`~django_agent_sessions.adapters.strands.DjangoSessionManager` does not make it
    wait, and is what an agent should get.

    Args:
        owner: The user whose sessions these are, or that user's primary key. Left out, sessions
            without an owner are reached, and made; ``EVERYBODY`` reaches every session.
        namespace: The space of session ids.
        using: The alias of the database.
        create: Whether sessions may be made. By default they may, unless the owner is
            ``EVERYBODY``, with which it takes True.

    Raises:
        InvalidIdError: The namespace cannot be one.
    """

    def __init__(
        self,
        *,
        owner: Any = NOBODY,
        namespace: str = "",
        using: str | None = None,
        create: bool | None = None,
    ) -> None:
        self._known = KnownStates()
        self._store = SessionStore(owner=owner, namespace=namespace, using=using, create=create)

    def create_session(self, session: Session, **kwargs: Any) -> Session:
        """Makes a session.

        Args:
            session: The session.
            **kwargs: Ignored.

        Returns:
            The session.

        Raises:
            SessionException: There is one of this name.
            InvalidIdError: The id cannot be one.
            ConfigurationError: The repository may make none.
        """
        self._run(
            lambda: self._store.create(
                session.session_id,
                session_type=session.session_type.value,
                created_at=formats.from_iso(session.created_at),
                updated_at=formats.from_iso(session.updated_at),
            )
        )
        return session

    def read_session(self, session_id: str, **kwargs: Any) -> Session | None:
        """Reads a session.

        Args:
            session_id: Its name.
            **kwargs: Ignored.

        Returns:
            The session; None if there is none, or it is not this owner's.

        Raises:
            InvalidIdError: The id cannot be one.
        """
        found = self._run(lambda: self._store.find(session_id))
        return None if found is None else formats.session(found)

    def delete_session(self, session_id: str, **kwargs: Any) -> None:
        """Deletes a session with all that belongs to it.

        Args:
            session_id: Its name.
            **kwargs: Ignored.

        Raises:
            SessionException: There is none, or it is not this owner's.
            LegalHoldError: It is under legal hold.
        """
        if not self._run(lambda: self._store.delete(session_id)):
            raise SessionException(f"Session {session_id!r} does not exist")

    def list_sessions(self, *, limit: int = 50, **kwargs: Any) -> list[Session]:
        """Lists sessions, the most recently active first.

        Args:
            limit: How many at the most.
            **kwargs: Ignored.

        Returns:
            The sessions that the repository reaches in its namespace.
        """
        found = self._run(lambda: self._store.list_sessions(limit=limit))
        return [formats.session(record) for record in found]

    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Makes an agent.

        Args:
            session_id: Its session.
            session_agent: The agent.
            **kwargs: Ignored.

        Raises:
            SessionException: There is one of this name in the session, or no such session.
            PayloadError: Its state is not JSON.
        """
        made = self._run(
            lambda: self._store.create_agent(
                self._store.get(session_id),
                session_agent.agent_id,
                dialect=transcripts.STRANDS,
                data=formats.agent_state(session_agent),
                created_at=formats.from_iso(session_agent.created_at),
                updated_at=formats.from_iso(session_agent.updated_at),
            )
        )
        self._known.learn(made.id, made.data)

    def read_agent(self, session_id: str, agent_id: str, **kwargs: Any) -> SessionAgent | None:
        """Reads an agent.

        Args:
            session_id: Its session.
            agent_id: Its name.
            **kwargs: Ignored.

        Returns:
            The agent; None if there is none, or no such session.
        """
        found = self._run(lambda: self._find_agent(session_id, agent_id))
        if found is None:
            return None
        self._known.learn(found.id, found.data)
        return formats.session_agent(found)

    def update_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Overwrites an agent's state.

        Args:
            session_id: Its session.
            session_agent: The agent; its ``created_at`` stays as it is stored.
            **kwargs: Ignored.

        Raises:
            SessionException: There is no such agent.
            PayloadError: Its state is not JSON.
        """

        def update() -> None:
            session = self._store.get(session_id)
            agent = self._agent_of(session, session_agent.agent_id)
            # Which messages the agent holds is not among Strands' data: what is known holds until
            # the conversation manager removes some more.
            managed = session_agent.conversation_manager_state
            same = managed == agent.data.conversation_manager_state
            window = agent.data.window if same else None
            # What was redacted since the caller knew the state is still in what it gives.
            given = formats.agent_state(session_agent, window=window)
            data = self._known.corrected_agent(agent.id, agent.data, given)
            self._store.update_agent(agent, data, epoch=session.redaction_epoch)
            self._known.learn(agent.id, data)

        self._run(lambda: _again_if_stale(update))

    def create_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Writes a message behind the last one.

        Args:
            session_id: Its session.
            agent_id: The agent whose conversation it is.
            session_message: The message; its ``message_id`` must be the next position.
            **kwargs: Ignored.

        Raises:
            SessionException: There is a message at this position, or a gap before it; or there
                is no such agent.
            PayloadError: It is not JSON or over a limit.
        """
        self._run(
            lambda: self._store.append(
                self._get_agent(session_id, agent_id),
                formats.new_message(session_message),
                expected=session_message.message_id,
            )
        )

    def read_message(
        self, session_id: str, agent_id: str, message_id: int, **kwargs: Any
    ) -> SessionMessage | None:
        """Reads a message.

        Args:
            session_id: Its session.
            agent_id: The agent whose conversation it is.
            message_id: Its position.
            **kwargs: Ignored.

        Returns:
            The message; None if there is none.
        """

        def read() -> SessionMessage | None:
            agent = self._find_agent(session_id, agent_id)
            found = agent and self._store.read_message(agent, message_id)
            return formats.session_message(found) if found else None

        return self._run(read)

    def update_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Replaces a message, or redacts it: its original is then overwritten.

        Args:
            session_id: Its session.
            agent_id: The agent whose conversation it is.
            session_message: The message; its ``created_at`` stays as it is stored. With a
                ``redact_message``, that is all that is kept.
            **kwargs: Ignored.

        Raises:
            SessionException: There is no message at this position.
            PayloadError: It is not JSON or over a limit.
        """

        def update() -> None:
            agent = self._get_agent(session_id, agent_id)
            position = session_message.message_id
            if session_message.redact_message is None:
                self._store.update_message(agent, position, session_message.message)
            else:
                self._store.redact_message(agent, position, session_message.redact_message)

        self._run(update)

    def list_messages(
        self,
        session_id: str,
        agent_id: str,
        limit: int | None = None,
        offset: int = 0,
        **kwargs: Any,
    ) -> list[SessionMessage]:
        """Reads messages from the beginning.

        Args:
            session_id: Their session.
            agent_id: The agent whose conversation it is.
            limit: How many at the most; None reads all.
            offset: How many to pass over.
            **kwargs: Ignored.

        Returns:
            The messages in order; none if there is no such agent.
        """

        def read() -> list[SessionMessage]:
            agent = self._find_agent(session_id, agent_id)
            if agent is None:
                return []
            found = self._store.messages(agent, limit=limit, offset=offset)
            return [formats.session_message(record) for record in found]

        return self._run(read)

    def create_multi_agent(
        self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any
    ) -> None:
        """Stores the state of an orchestrator.

        Args:
            session_id: Its session.
            multi_agent: The graph or swarm.
            **kwargs: Ignored.

        Raises:
            SessionException: There is one of this name in the session, or no such session.
            PayloadError: Its state is not JSON.
        """
        state = multi_agent.serialize_state()
        made = self._run(
            lambda: self._store.create_multi_agent(
                self._store.get(session_id), multi_agent.id, state, kind=state.get("type", "")
            )
        )
        self._known.learn(made.id, as_state(state))

    def read_multi_agent(
        self, session_id: str, multi_agent_id: str, **kwargs: Any
    ) -> dict[str, Any] | None:
        """Reads the state of an orchestrator.

        Args:
            session_id: Its session.
            multi_agent_id: Its name.
            **kwargs: Ignored.

        Returns:
            The state; None if there is none.
        """

        def read() -> dict[str, Any] | None:
            session = self._store.find(session_id)
            found = session and self._store.read_multi_agent(session, multi_agent_id)
            if not found:
                return None
            self._known.learn(found.id, as_state(found.state))
            state: dict[str, Any] = found.state
            return state

        return self._run(read)

    def update_multi_agent(
        self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any
    ) -> None:
        """Overwrites the state of an orchestrator.

        Args:
            session_id: Its session.
            multi_agent: The graph or swarm.
            **kwargs: Ignored.

        Raises:
            SessionException: There is no such orchestrator.
            PayloadError: Its state is not JSON.
        """

        def update() -> None:
            session = self._store.get(session_id)
            found = self._store.read_multi_agent(session, multi_agent.id)
            if found is None:
                raise SessionNotFoundError(
                    f"Orchestrator {multi_agent.id!r} in session {session_id!r} does not exist"
                )
            given = multi_agent.serialize_state()
            state = self._known.corrected_orchestrator(found.id, found.state, given)
            self._store.update_multi_agent(
                session, multi_agent.id, state, epoch=session.redaction_epoch
            )
            self._known.learn(found.id, as_state(state))

        self._run(lambda: _again_if_stale(update))

    def _run(self, function: Callable[[], R]) -> R:
        try:
            return bridge.run_sync(function, using=self._store.using)
        except (SessionConflictError, SessionNotFoundError) as error:
            raise SessionException(str(error)) from error

    def _find_agent(self, session_id: str, agent_id: str) -> AgentRecord | None:
        session: SessionRecord | None = self._store.find(session_id)
        found = None if session is None else self._store.read_agent(session, agent_id)
        if found is not None:
            check_dialect(found)
        return found

    def _get_agent(self, session_id: str, agent_id: str) -> AgentRecord:
        return self._agent_of(self._store.get(session_id), agent_id)

    def _agent_of(self, session: SessionRecord, agent_id: str) -> AgentRecord:
        found = self._store.read_agent(session, agent_id)
        if found is None:
            raise SessionNotFoundError(f"session {session.session_id!r} has no agent {agent_id!r}")
        check_dialect(found)
        return found


def _again_if_stale(update: Callable[[], None]) -> None:
    """Runs an update again if somebody redacted between its reading and its writing."""
    try:
        update()
    except StaleSessionError:
        update()
