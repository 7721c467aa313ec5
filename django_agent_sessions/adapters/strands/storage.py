"""Strands' ``SessionRepository`` on a Django storage, without a database."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from django.core.exceptions import SuspiciousFileOperation
from django.core.files.storage import Storage
from strands.multiagent.base import MultiAgentBase
from strands.session.session_repository import SessionRepository
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from django_agent_sessions.exceptions import PayloadError
from django_agent_sessions.interchange.strands_layout import Layout

from . import stored

logger = logging.getLogger(__name__)

R = TypeVar("R")


class StorageSessionRepository(SessionRepository):
    """Sessions as files, in the layout of ``FileSessionManager`` and ``S3SessionManager``.

    It needs no database, and may be called with or without a running event loop. It does not lock:
    if two processes run an agent at the same time, they do not overwrite each other's messages, but
    the slower one gets an error.

    Files that cannot be parsed are logged by name. Such a message is skipped, and its number is not
    used again; a copy of such an agent's state is kept when the state is next written.

    Args:
        storage: The storage, or its alias in ``STORAGES``.
        prefix: The folder of the sessions in the storage.

    Raises:
        InvalidStorageError: ``STORAGES`` has no such alias.
    """

    def __init__(self, storage: Storage | str, prefix: str = "") -> None:
        self._layout = Layout(storage, prefix)

    def create_session(self, session: Session, **kwargs: Any) -> Session:
        """Create a session.

        Args:
            session: The session.
            **kwargs: Ignored.

        Returns:
            The session.

        Raises:
            SessionException: A session with this id exists.
            InvalidIdError: The id is invalid or contains a path separator.
        """
        with _strands_errors(f"Session {session.session_id!r}"):
            self._layout.create_session(session.session_id, session.to_dict())
        return session

    def read_session(self, session_id: str, **kwargs: Any) -> Session | None:
        """Return a session.

        Args:
            session_id: The session's id.
            **kwargs: Ignored.

        Returns:
            The session; None if it does not exist.

        Raises:
            SessionException: The file is a symbolic link.
            InvalidIdError: The id is invalid or contains a path separator.
        """
        with _strands_errors(f"Session {session_id!r}"):
            try:
                document = self._layout.read_session(session_id)
                return (
                    None
                    if document is None
                    else stored.build_from_dict(Session.from_dict, document)
                )
            except PayloadError as error:
                # The file contains nothing that is required.
                logger.error(
                    "The file of session %r is ignored because it cannot be parsed: %s",
                    session_id,
                    error,
                )
                return Session(session_id, SessionType.AGENT)

    def delete_session(self, session_id: str, **kwargs: Any) -> None:
        """Delete a session with all files in its folder.

        Args:
            session_id: The session's id.
            **kwargs: Ignored.

        Raises:
            SessionException: The session does not exist.
            InvalidIdError: The id is invalid or contains a path separator.
        """
        if not self._layout.delete_session(session_id):
            raise SessionException(f"Session {session_id!r} does not exist")

    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Create an agent.

        Args:
            session_id: The session's id.
            session_agent: The agent.
            **kwargs: Ignored.

        Raises:
            SessionException: An agent with this id exists in the session.
            InvalidIdError: An id is invalid or contains a path separator.
            PayloadError: The state is not JSON.
        """
        agent_id, document = session_agent.agent_id, session_agent.to_dict()
        with _strands_errors(f"Agent {agent_id!r} in session {session_id!r}"):
            try:
                self._layout.create_agent(session_id, agent_id, document)
            except FileExistsError:
                if self._read_agent(session_id, agent_id) is not None:
                    raise
                self._layout.write_agent(session_id, agent_id, document)

    def read_agent(self, session_id: str, agent_id: str, **kwargs: Any) -> SessionAgent | None:
        """Return an agent.

        Args:
            session_id: The session's id.
            agent_id: The agent's id.
            **kwargs: Ignored.

        Returns:
            The agent; None if it does not exist. If its file cannot be parsed: an agent with an
            empty state that every conversation manager accepts, so that the conversation can
            continue.

        Raises:
            SessionException: The file is a symbolic link.
            InvalidIdError: An id is invalid or contains a path separator.
        """
        with _strands_errors(f"Agent {agent_id!r} in session {session_id!r}"):
            try:
                document = self._layout.read_agent(session_id, agent_id)
                return (
                    None
                    if document is None
                    else stored.build_from_dict(stored.agent_from_dict, document)
                )
            except PayloadError as error:
                logger.error(
                    "Agent %r in session %r continues with an empty state because its file "
                    "cannot be parsed: %s",
                    agent_id,
                    session_id,
                    error,
                )
                return stored.session_agent_without_state(agent_id)

    def update_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Replace an agent's state.

        Args:
            session_id: The session's id.
            session_agent: The agent; its ``created_at`` is set to the stored one.
            **kwargs: Ignored.

        Raises:
            SessionException: The agent does not exist.
            InvalidIdError: An id is invalid or contains a path separator.
            PayloadError: The state is not JSON.
        """
        agent_id = session_agent.agent_id
        with _strands_errors(f"Agent {agent_id!r} in session {session_id!r}"):
            previous = self._read_agent(session_id, agent_id)
            if previous is not None:
                session_agent.created_at = previous.created_at
            self._layout.write_agent(session_id, agent_id, session_agent.to_dict())

    def create_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Create a message at an unused position.

        Args:
            session_id: The session's id.
            agent_id: The agent's id.
            session_message: The message. If the file of its ``message_id`` exists but cannot be
                parsed, its ``message_id`` is set to the next unused one.
            **kwargs: Ignored.

        Raises:
            SessionException: A message with this ``message_id`` exists.
            InvalidIdError: An id is invalid or contains a path separator.
            PayloadError: The message is not JSON.
        """
        with _strands_errors(
            f"Message {session_message.message_id} of agent {agent_id!r} in session {session_id!r}"
        ):
            try:
                self._create_message(session_id, agent_id, session_message)
            except FileExistsError:
                if self._is_readable(session_id, agent_id, session_message.message_id):
                    raise
                # Strands counts from the last message that it read, which excludes this one.
                used = self._layout.message_numbers(session_id, agent_id)
                session_message.message_id = max([session_message.message_id, *used]) + 1
                self._create_message(session_id, agent_id, session_message)

    def read_message(
        self, session_id: str, agent_id: str, message_id: int, **kwargs: Any
    ) -> SessionMessage | None:
        """Return a message.

        Args:
            session_id: The session's id.
            agent_id: The agent's id.
            message_id: The message's number.
            **kwargs: Ignored.

        Returns:
            The message; None if it does not exist or cannot be parsed.

        Raises:
            SessionException: The file is a symbolic link.
            InvalidIdError: An id is invalid or contains a path separator.
            ValueError: The number is not an integer.
        """
        with _strands_errors(f"Message {message_id} of agent {agent_id!r}"):
            try:
                document = self._layout.read_message(session_id, agent_id, message_id)
            except PayloadError as error:
                _log_skipped(session_id, agent_id, message_id, error)
                document = None
        return None if document is None else stored.message_from_dict(document, message_id)

    def update_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Replace a message.

        Args:
            session_id: The session's id.
            agent_id: The agent's id.
            session_message: The message; its ``created_at`` is set to the stored one. Like Strands'
                own managers, this stores the original besides a ``redact_message``.
            **kwargs: Ignored.

        Raises:
            SessionException: The message does not exist or cannot be parsed.
            InvalidIdError: An id is invalid or contains a path separator.
            PayloadError: The message is not JSON.
        """
        number = session_message.message_id
        previous = self.read_message(session_id, agent_id, number)
        if previous is None:
            raise SessionException(
                f"Message {number} of agent {agent_id!r} in session {session_id!r} does not exist"
            )
        session_message.created_at = previous.created_at
        with _strands_errors(f"Message {number} of agent {agent_id!r}"):
            self._layout.write_message(session_id, agent_id, number, session_message.to_dict())

    def list_messages(
        self,
        session_id: str,
        agent_id: str,
        limit: int | None = None,
        offset: int = 0,
        **kwargs: Any,
    ) -> list[SessionMessage]:
        """Return messages from the beginning; the files are read in parallel.

        Args:
            session_id: The session's id.
            agent_id: The agent's id.
            limit: The maximum number of messages; None for all.
            offset: The number of messages to skip.
            **kwargs: Ignored.

        Returns:
            The messages in order; empty if the agent does not exist. Messages that cannot be parsed
            are skipped, but counted by ``limit`` and ``offset``.

        Raises:
            SessionException: A file is a symbolic link.
            InvalidIdError: An id is invalid or contains a path separator.
        """
        numbers = self._layout.message_numbers(session_id, agent_id)
        requested = numbers[offset:] if limit is None else numbers[offset : offset + limit]
        messages: list[SessionMessage] = []
        with _strands_errors(f"A message of agent {agent_id!r} in session {session_id!r}"):
            for number, document in self._layout.read_messages(session_id, agent_id, requested):
                if isinstance(document, (PayloadError, FileNotFoundError)):
                    _log_skipped(session_id, agent_id, number, document)
                elif isinstance(document, Exception):
                    raise document
                else:
                    messages.append(stored.message_from_dict(document, number))
        return messages

    def create_multi_agent(
        self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any
    ) -> None:
        """Create the state of an orchestrator.

        Args:
            session_id: The session's id.
            multi_agent: The graph or swarm.
            **kwargs: Ignored.

        Raises:
            SessionException: An orchestrator with this id exists in the session.
            InvalidIdError: An id is invalid or contains a path separator.
            PayloadError: The state is not JSON.
        """
        name, state = multi_agent.id, multi_agent.serialize_state()
        with _strands_errors(f"Orchestrator {name!r} in session {session_id!r}"):
            try:
                self._layout.create_multi_agent(session_id, name, state)
            except FileExistsError:
                if self._read_multi_agent(session_id, name) is not None:
                    raise
                self._layout.write_multi_agent(session_id, name, state)

    def read_multi_agent(
        self, session_id: str, multi_agent_id: str, **kwargs: Any
    ) -> dict[str, Any] | None:
        """Return the state of an orchestrator.

        Args:
            session_id: The session's id.
            multi_agent_id: The orchestrator's id.
            **kwargs: Ignored.

        Returns:
            The state; None if it does not exist or cannot be parsed.

        Raises:
            SessionException: The file is a symbolic link.
            InvalidIdError: An id is invalid or contains a path separator.
        """
        with _strands_errors(f"Orchestrator {multi_agent_id!r} in session {session_id!r}"):
            try:
                return self._layout.read_multi_agent(session_id, multi_agent_id)
            except PayloadError as error:
                logger.error(
                    "Orchestrator %r in session %r restarts with an empty state because its file "
                    "cannot be parsed: %s",
                    multi_agent_id,
                    session_id,
                    error,
                )
                return None

    def update_multi_agent(
        self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any
    ) -> None:
        """Replace the state of an orchestrator.

        Args:
            session_id: The session's id.
            multi_agent: The graph or swarm.
            **kwargs: Ignored.

        Raises:
            SessionException: The orchestrator does not exist.
            InvalidIdError: An id is invalid or contains a path separator.
            PayloadError: The state is not JSON.
        """
        name = multi_agent.id
        with _strands_errors(f"Orchestrator {name!r} in session {session_id!r}"):
            self._read_multi_agent(session_id, name)
            self._layout.write_multi_agent(session_id, name, multi_agent.serialize_state())

    def _read_agent(self, session_id: str, agent_id: str) -> SessionAgent | None:
        """Read an existing agent; None if its file cannot be parsed and a copy of it was kept."""
        file = self._layout.names.agent_file(session_id, agent_id)
        return self._read_or_back_up(
            lambda: self._layout.read_agent(session_id, agent_id), stored.agent_from_dict, file
        )

    def _read_multi_agent(self, session_id: str, multi_agent_id: str) -> dict[str, Any] | None:
        file = self._layout.names.multi_agent_file(session_id, multi_agent_id)
        return self._read_or_back_up(
            lambda: self._layout.read_multi_agent(session_id, multi_agent_id), dict, file
        )

    def _read_or_back_up(
        self,
        read: Callable[[], dict[str, Any] | None],
        make: Callable[[dict[str, Any]], R],
        file: str,
    ) -> R | None:
        try:
            document = read()
            if document is None:
                raise FileNotFoundError(file)
            return stored.build_from_dict(make, document)
        except PayloadError:
            self._layout.files.set_aside(file)
            return None

    def _create_message(self, session_id: str, agent_id: str, message: SessionMessage) -> None:
        self._layout.create_message(session_id, agent_id, message.message_id, message.to_dict())

    def _is_readable(self, session_id: str, agent_id: str, message_id: int) -> bool:
        try:
            self._layout.read_message(session_id, agent_id, message_id)
        except (PayloadError, IsADirectoryError):
            return False
        return True


def _log_skipped(session_id: str, agent_id: str, number: int, error: Exception) -> None:
    logger.error(
        "Message %d of agent %r in session %r was skipped: %s", number, agent_id, session_id, error
    )


@contextmanager
def _strands_errors(what: str) -> Iterator[None]:
    try:
        yield
    except FileExistsError as error:
        raise SessionException(f"{what} already exists") from error
    except FileNotFoundError as error:
        raise SessionException(f"{what} does not exist") from error
    except SuspiciousFileOperation as error:
        raise SessionException(f"{what} cannot be accessed: {error}") from error
