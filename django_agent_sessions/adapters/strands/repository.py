"""Strands' ``SessionRepository`` on the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from strands.multiagent.base import MultiAgentBase
from strands.session.session_repository import SessionRepository
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage

from django_agent_sessions.adapters.base import check_dialect
from django_agent_sessions.content import dialects
from django_agent_sessions.db import bridge
from django_agent_sessions.exceptions import (
    SessionConflictError,
    SessionNotFoundError,
    StaleSessionError,
)
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values import observing
from django_agent_sessions.values.owners import NOBODY
from django_agent_sessions.values.records import AgentRecord, SessionRecord

from . import formats
from .live_redaction import StateCache, as_state

R = TypeVar("R")


class DjangoSessionRepository(SessionRepository):
    """Sessions in the project's database.

    Each method may be called from any thread, with or without a running event loop, which is
    blocked meanwhile. Agents should use
    :class:`~django_agent_sessions.adapters.strands.DjangoSessionManager`, which does not block it.

    Args:
        owner: The user whose sessions these are, or that user's primary key. If omitted, only
            sessions without an owner are reached and created; ``EVERYBODY`` reaches all sessions.
        namespace: The namespace of session ids.
        scope: A second level below the namespace, such as a tenant; empty by default.
        using: The alias of the database.
        create: Whether sessions can be created. The default is True, except with
            ``owner=EVERYBODY``.

    Raises:
        InvalidIdError: The namespace or the scope is invalid.
    """

    def __init__(
        self,
        *,
        owner: Any = NOBODY,
        namespace: str = "",
        scope: str = "",
        using: str | None = None,
        create: bool | None = None,
    ) -> None:
        self._known_states = StateCache()
        self._store = SessionStore(
            owner=owner, namespace=namespace, scope=scope, using=using, create=create
        )

    def create_session(self, session: Session, **kwargs: Any) -> Session:
        """Create a session.

        Returns:
            The session.

        Raises:
            SessionException: A session with this id exists.
            InvalidIdError: The id is invalid.
            ConfigurationError: The repository does not create sessions.
        """
        observing.use(self._store.namespace, session.session_id)
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
        """Return a session.

        Returns:
            The session; None if it does not exist or has another owner.

        Raises:
            InvalidIdError: The id is invalid.
        """
        observing.use(self._store.namespace, session_id)
        record = self._run(lambda: self._store.find(session_id))
        return None if record is None else formats.session(record)

    def delete_session(self, session_id: str, **kwargs: Any) -> None:
        """Delete a session with everything that belongs to it.

        Raises:
            SessionException: The session does not exist or has another owner.
            LegalHoldError: The session is under legal hold.
        """
        if not self._run(lambda: self._store.delete(session_id)):
            raise SessionException(f"Session {session_id!r} does not exist")

    def list_sessions(self, *, limit: int = 50, **kwargs: Any) -> list[Session]:
        """List sessions, the most recently active first.

        Returns:
            The sessions that the repository reaches in its namespace.
        """
        records = self._run(lambda: self._store.sessions.list(limit=limit))
        return [formats.session(record) for record in records]

    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Create an agent.

        Raises:
            SessionException: An agent with this id exists, or the session does not exist.
            PayloadError: The state is not JSON.
        """
        record = self._run(
            lambda: self._store.agents.create(
                self._store.get(session_id),
                session_agent.agent_id,
                dialect=dialects.STRANDS,
                data=formats.agent_state(session_agent),
                created_at=formats.from_iso(session_agent.created_at),
                updated_at=formats.from_iso(session_agent.updated_at),
            ),
            what=_state_of(session_id, "agent", session_agent.agent_id),
        )
        self._known_states.learn(record.id, record.data)

    def read_agent(self, session_id: str, agent_id: str, **kwargs: Any) -> SessionAgent | None:
        """Return an agent.

        Returns:
            The agent; None if the agent or the session does not exist.
        """
        record = self._run(lambda: self._find_agent(session_id, agent_id))
        if record is None:
            return None
        self._known_states.learn(record.id, record.data)
        return formats.session_agent(record)

    def update_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Replace an agent's state; its ``created_at`` is not written.

        Raises:
            SessionException: The agent does not exist.
            PayloadError: The state is not JSON.
        """

        def update() -> None:
            session = self._store.get(session_id)
            agent = self._agent_of(session, session_agent.agent_id)
            # Strands' data do not contain the window: the stored one is valid until the
            # conversation manager removes further messages.
            managed = session_agent.conversation_manager_state
            same = managed == agent.data.conversation_manager_state
            window = agent.data.window if same else None
            # The caller's state may contain texts that were redacted since it was read.
            current = formats.agent_state(session_agent, window=window)
            data = self._known_states.apply_to_agent(agent.id, agent.data, current)
            self._store.agents.update(agent, data, epoch=session.redaction_epoch)
            self._known_states.learn(agent.id, data)

        what = _state_of(session_id, "agent", session_agent.agent_id)
        self._run(lambda: _retry_if_stale(update), what=what)

    def create_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Append a message, whose ``message_id`` must be the next position.

        Raises:
            SessionException: There is a message at this position, or a gap before it; or the agent
                does not exist.
            PayloadError: The message is not JSON or exceeds a limit.
        """
        _check_message_id(session_message.message_id)
        observing.use(self._store.namespace, session_id, agent_id)
        self._run(
            lambda: self._store.append(
                self._get_agent(session_id, agent_id),
                formats.new_message(session_message),
                expected=session_message.message_id,
            ),
            what=_message_of(session_id, agent_id, session_message),
        )

    def read_message(
        self, session_id: str, agent_id: str, message_id: int, **kwargs: Any
    ) -> SessionMessage | None:
        """Return a message.

        Returns:
            The message; None if it does not exist.
        """
        _check_message_id(message_id)

        def read() -> SessionMessage | None:
            agent = self._find_agent(session_id, agent_id)
            record = agent and self._store.messages.find(agent, message_id)
            return formats.session_message(record) if record else None

        return self._run(read)

    def update_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Replace a message, or redact it, which deletes the original.

        If it has a ``redact_message``, only that is stored. Its ``created_at`` is not written.

        Raises:
            SessionException: There is no message at this position.
            PayloadError: The message is not JSON or exceeds a limit.
        """
        _check_message_id(session_message.message_id)

        def update() -> None:
            agent = self._get_agent(session_id, agent_id)
            position = session_message.message_id
            if session_message.redact_message is None:
                self._store.messages.update(agent, position, session_message.message)
            else:
                self._store.messages.redact(agent, position, session_message.redact_message)

        self._run(update, what=_message_of(session_id, agent_id, session_message))

    def list_messages(
        self,
        session_id: str,
        agent_id: str,
        limit: int | None = None,
        offset: int = 0,
        **kwargs: Any,
    ) -> list[SessionMessage]:
        """Return messages from the beginning.

        A negative limit or offset counts from the end, as in Strands' own stores: an offset of -2
        returns the last two.

        Returns:
            The messages in order; empty if the agent does not exist, as in Strands' S3 store.
        """

        def read() -> list[SessionMessage]:
            agent = self._find_agent(session_id, agent_id)
            if agent is None:
                return []
            most, first = limit, offset
            if first < 0 or (most is not None and most < 0):
                stop = None if most is None else first + most
                chosen = range(self._store.messages.next_position(agent))[first:stop]
                most, first = len(chosen), chosen.start
            records = self._store.messages.list(agent, limit=most, offset=first)
            return [formats.session_message(record) for record in records]

        return self._run(read)

    def create_multi_agent(
        self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any
    ) -> None:
        """Create the state of an orchestrator.

        Raises:
            SessionException: An orchestrator with this id exists, or the session does not exist.
            PayloadError: The state is not JSON.
        """
        state = multi_agent.serialize_state()
        record = self._run(
            lambda: self._store.multi_agents.create(
                self._store.get(session_id), multi_agent.id, state, kind=state.get("type", "")
            ),
            what=_state_of(session_id, "orchestrator", multi_agent.id),
        )
        self._known_states.learn(record.id, as_state(state))

    def read_multi_agent(
        self, session_id: str, multi_agent_id: str, **kwargs: Any
    ) -> dict[str, Any] | None:
        """Return the state of an orchestrator.

        Returns:
            The state; None if it does not exist.
        """

        def read() -> dict[str, Any] | None:
            session = self._store.find(session_id)
            record = session and self._store.multi_agents.find(session, multi_agent_id)
            if not record:
                return None
            self._known_states.learn(record.id, as_state(record.state))
            state: dict[str, Any] = record.state
            return state

        return self._run(read)

    def update_multi_agent(
        self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any
    ) -> None:
        """Replace the state of an orchestrator.

        Raises:
            SessionException: The orchestrator does not exist.
            PayloadError: The state is not JSON.
        """

        def update() -> None:
            session = self._store.get(session_id)
            record = self._store.multi_agents.find(session, multi_agent.id)
            if record is None:
                raise SessionNotFoundError(
                    f"Orchestrator {multi_agent.id!r} in session {session_id!r} does not exist"
                )
            current = multi_agent.serialize_state()
            state = self._known_states.apply_to_orchestrator(record.id, record.state, current)
            self._store.multi_agents.update(
                session, multi_agent.id, state, epoch=session.redaction_epoch
            )
            self._known_states.learn(record.id, as_state(state))

        what = _state_of(session_id, "orchestrator", multi_agent.id)
        self._run(lambda: _retry_if_stale(update), what=what)

    def _run(self, function: Callable[[], R], *, what: str = "a value") -> R:
        try:
            with formats.name_in_error(what):
                return bridge.run_sync(function, using=self._store.using)
        except (SessionConflictError, SessionNotFoundError) as error:
            raise SessionException(str(error)) from error

    def _find_agent(self, session_id: str, agent_id: str) -> AgentRecord | None:
        session: SessionRecord | None = self._store.find(session_id)
        record = None if session is None else self._store.agents.find(session, agent_id)
        if record is not None:
            check_dialect(record, dialects.STRANDS)
        return record

    def _get_agent(self, session_id: str, agent_id: str) -> AgentRecord:
        return self._agent_of(self._store.get(session_id), agent_id)

    def _agent_of(self, session: SessionRecord, agent_id: str) -> AgentRecord:
        record = self._store.agents.find(session, agent_id)
        if record is None:
            raise SessionNotFoundError(f"session {session.session_id!r} has no agent {agent_id!r}")
        check_dialect(record, dialects.STRANDS)
        return record


def _state_of(session_id: str, kind: str, name: str) -> str:
    return f"the state of {kind} {name!r} of session {session_id!r}"


def _message_of(session_id: str, agent_id: str, message: SessionMessage) -> str:
    return f"message {message.message_id} of agent {agent_id!r} of session {session_id!r}"


def _check_message_id(message_id: int) -> None:
    if not isinstance(message_id, int):
        raise ValueError(
            f"the message_id must be an integer, not of type {type(message_id).__name__}"
        )


def _retry_if_stale(update: Callable[[], None]) -> None:
    """Retry an update if there was a redaction between its read and its write."""
    try:
        update()
    except StaleSessionError:
        update()
