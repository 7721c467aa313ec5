"""Strands' ``SessionRepository`` on any Django storage, without a database."""

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
from django_agent_sessions.interchange.layout import Layout

from . import stored

logger = logging.getLogger(__name__)

R = TypeVar("R")


class StorageSessionRepository(SessionRepository):
    """Sessions as files, as ``FileSessionManager`` and ``S3SessionManager`` write and read them.

    It needs no database, and may be called with a running event loop or without. Nothing is locked:
    two processes that run one agent at the same time do not overwrite each other's messages, but
    the slower one gets an error.

    What cannot be read is logged with its name. A message is then left out, and its number is not
    used again; of an agent's state that cannot be read a copy is kept when it is next written.

    Args:
        storage: The storage, or its alias in ``STORAGES``.
        prefix: The folder in the storage that holds the sessions.

    Raises:
        InvalidStorageError: There is no storage of that alias.
    """

    def __init__(self, storage: Storage | str, prefix: str = "") -> None:
        self._layout = Layout(storage, prefix)

    def create_session(self, session: Session, **kwargs: Any) -> Session:
        """Makes a session.

        Args:
            session: The session.
            **kwargs: Ignored.

        Returns:
            The session.

        Raises:
            SessionException: There is one of this name.
            InvalidIdError: The id cannot be one, or has a path separator.
        """
        with _as_strands_says(f"Session {session.session_id!r}"):
            self._layout.create_session(session.session_id, session.to_dict())
        return session

    def read_session(self, session_id: str, **kwargs: Any) -> Session | None:
        """Reads a session.

        Args:
            session_id: Its name.
            **kwargs: Ignored.

        Returns:
            The session; None if there is none.

        Raises:
            SessionException: Its file is a symbolic link.
            InvalidIdError: The id cannot be one, or has a path separator.
        """
        with _as_strands_says(f"Session {session_id!r}"):
            try:
                found = self._layout.read_session(session_id)
                return None if found is None else stored.made(Session.from_dict, found)
            except PayloadError as error:
                # It holds nothing that is needed.
                logger.error("Session %r is used without its file: %s", session_id, error)
                return Session(session_id, SessionType.AGENT)

    def delete_session(self, session_id: str, **kwargs: Any) -> None:
        """Deletes a session with all files in its folder.

        Args:
            session_id: Its name.
            **kwargs: Ignored.

        Raises:
            SessionException: There is none.
            InvalidIdError: The id cannot be one, or has a path separator.
        """
        if not self._layout.delete_session(session_id):
            raise SessionException(f"Session {session_id!r} does not exist")

    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Makes an agent.

        Args:
            session_id: Its session.
            session_agent: The agent.
            **kwargs: Ignored.

        Raises:
            SessionException: There is one of this name in the session.
            InvalidIdError: An id cannot be one, or has a path separator.
            PayloadError: Its state is not JSON.
        """
        agent_id, document = session_agent.agent_id, session_agent.to_dict()
        with _as_strands_says(f"Agent {agent_id!r} in session {session_id!r}"):
            try:
                self._layout.create_agent(session_id, agent_id, document)
            except FileExistsError:
                if self._read_agent(session_id, agent_id) is not None:
                    raise
                self._layout.write_agent(session_id, agent_id, document)

    def read_agent(self, session_id: str, agent_id: str, **kwargs: Any) -> SessionAgent | None:
        """Reads an agent.

        Args:
            session_id: Its session.
            agent_id: Its name.
            **kwargs: Ignored.

        Returns:
            The agent; None if there is none. If its file cannot be read: an agent without a state,
            that any conversation manager takes, so that the conversation goes on.

        Raises:
            SessionException: Its file is a symbolic link.
            InvalidIdError: An id cannot be one, or has a path separator.
        """
        with _as_strands_says(f"Agent {agent_id!r} in session {session_id!r}"):
            try:
                found = self._layout.read_agent(session_id, agent_id)
                return None if found is None else stored.made(stored.session_agent, found)
            except PayloadError as error:
                logger.error(
                    "Agent %r in session %r goes on without its state: %s",
                    agent_id,
                    session_id,
                    error,
                )
                return stored.agent_without_state(agent_id)

    def update_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Overwrites an agent's state.

        Args:
            session_id: Its session.
            session_agent: The agent; its ``created_at`` is set to what is stored.
            **kwargs: Ignored.

        Raises:
            SessionException: There is no such agent.
            InvalidIdError: An id cannot be one, or has a path separator.
            PayloadError: Its state is not JSON.
        """
        agent_id = session_agent.agent_id
        with _as_strands_says(f"Agent {agent_id!r} in session {session_id!r}"):
            previous = self._read_agent(session_id, agent_id)
            if previous is not None:
                session_agent.created_at = previous.created_at
            self._layout.write_agent(session_id, agent_id, session_agent.to_dict())

    def create_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Writes a message where there is none.

        Args:
            session_id: Its session.
            agent_id: The agent whose conversation it is.
            session_message: The message. If a file of its ``message_id`` is there and cannot be
                read, its ``message_id`` is set to the next one that is free.
            **kwargs: Ignored.

        Raises:
            SessionException: There is a message of this ``message_id``.
            InvalidIdError: An id cannot be one, or has a path separator.
            PayloadError: It is not JSON.
        """
        with _as_strands_says(
            f"Message {session_message.message_id} of agent {agent_id!r} in session {session_id!r}"
        ):
            try:
                self._create_message(session_id, agent_id, session_message)
            except FileExistsError:
                if self._is_readable(session_id, agent_id, session_message.message_id):
                    raise
                # Strands counts from the last message that it was given, and this one was not.
                taken = self._layout.message_numbers(session_id, agent_id)
                session_message.message_id = max([session_message.message_id, *taken]) + 1
                self._create_message(session_id, agent_id, session_message)

    def read_message(
        self, session_id: str, agent_id: str, message_id: int, **kwargs: Any
    ) -> SessionMessage | None:
        """Reads a message.

        Args:
            session_id: Its session.
            agent_id: The agent whose conversation it is.
            message_id: Its number.
            **kwargs: Ignored.

        Returns:
            The message; None if there is none, or none that can be read.

        Raises:
            SessionException: Its file is a symbolic link.
            InvalidIdError: An id cannot be one, or has a path separator.
            ValueError: The number is none.
        """
        with _as_strands_says(f"Message {message_id} of agent {agent_id!r}"):
            try:
                found = self._layout.read_message(session_id, agent_id, message_id)
            except PayloadError as error:
                _log_left_out(session_id, agent_id, message_id, error)
                found = None
        return None if found is None else stored.session_message(found, message_id)

    def update_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Replaces a message.

        Args:
            session_id: Its session.
            agent_id: The agent whose conversation it is.
            session_message: The message; its ``created_at`` is set to what is stored. As Strands'
                own managers do, this keeps the original beside a ``redact_message``.
            **kwargs: Ignored.

        Raises:
            SessionException: There is no such message, or none that can be read.
            InvalidIdError: An id cannot be one, or has a path separator.
            PayloadError: It is not JSON.
        """
        number = session_message.message_id
        previous = self.read_message(session_id, agent_id, number)
        if previous is None:
            raise SessionException(
                f"Message {number} of agent {agent_id!r} in session {session_id!r} does not exist"
            )
        session_message.created_at = previous.created_at
        with _as_strands_says(f"Message {number} of agent {agent_id!r}"):
            self._layout.write_message(session_id, agent_id, number, session_message.to_dict())

    def list_messages(
        self,
        session_id: str,
        agent_id: str,
        limit: int | None = None,
        offset: int = 0,
        **kwargs: Any,
    ) -> list[SessionMessage]:
        """Reads messages from the beginning, in parallel.

        Args:
            session_id: Their session.
            agent_id: The agent whose conversation it is.
            limit: How many at the most; None reads all.
            offset: How many to pass over.
            **kwargs: Ignored.

        Returns:
            The messages in order; none if there is no such agent. Those that cannot be read are
            left out, but counted by ``limit`` and ``offset``.

        Raises:
            SessionException: A file is a symbolic link.
            InvalidIdError: An id cannot be one, or has a path separator.
        """
        numbers = self._layout.message_numbers(session_id, agent_id)
        wanted = numbers[offset:] if limit is None else numbers[offset : offset + limit]
        messages: list[SessionMessage] = []
        with _as_strands_says(f"A message of agent {agent_id!r} in session {session_id!r}"):
            for number, found in self._layout.read_messages(session_id, agent_id, wanted):
                if isinstance(found, (PayloadError, FileNotFoundError)):
                    _log_left_out(session_id, agent_id, number, found)
                elif isinstance(found, Exception):
                    raise found
                else:
                    messages.append(stored.session_message(found, number))
        return messages

    def create_multi_agent(
        self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any
    ) -> None:
        """Stores the state of an orchestrator.

        Args:
            session_id: Its session.
            multi_agent: The graph or swarm.
            **kwargs: Ignored.

        Raises:
            SessionException: There is one of this name in the session.
            InvalidIdError: An id cannot be one, or has a path separator.
            PayloadError: Its state is not JSON.
        """
        name, state = multi_agent.id, multi_agent.serialize_state()
        with _as_strands_says(f"Orchestrator {name!r} in session {session_id!r}"):
            try:
                self._layout.create_multi_agent(session_id, name, state)
            except FileExistsError:
                if self._read_multi_agent(session_id, name) is not None:
                    raise
                self._layout.write_multi_agent(session_id, name, state)

    def read_multi_agent(
        self, session_id: str, multi_agent_id: str, **kwargs: Any
    ) -> dict[str, Any] | None:
        """Reads the state of an orchestrator.

        Args:
            session_id: Its session.
            multi_agent_id: Its name.
            **kwargs: Ignored.

        Returns:
            The state; None if there is none, or none that can be read.

        Raises:
            SessionException: Its file is a symbolic link.
            InvalidIdError: An id cannot be one, or has a path separator.
        """
        with _as_strands_says(f"Orchestrator {multi_agent_id!r} in session {session_id!r}"):
            try:
                return self._layout.read_multi_agent(session_id, multi_agent_id)
            except PayloadError as error:
                logger.error(
                    "Orchestrator %r in session %r starts from the beginning: %s",
                    multi_agent_id,
                    session_id,
                    error,
                )
                return None

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
            InvalidIdError: An id cannot be one, or has a path separator.
            PayloadError: Its state is not JSON.
        """
        name = multi_agent.id
        with _as_strands_says(f"Orchestrator {name!r} in session {session_id!r}"):
            self._read_multi_agent(session_id, name)
            self._layout.write_multi_agent(session_id, name, multi_agent.serialize_state())

    def _read_agent(self, session_id: str, agent_id: str) -> SessionAgent | None:
        """Reads an agent that must be there; None if it cannot be read and was set aside."""
        file = self._layout.names.agent_file(session_id, agent_id)
        return self._read_or_set_aside(
            lambda: self._layout.read_agent(session_id, agent_id), stored.session_agent, file
        )

    def _read_multi_agent(self, session_id: str, multi_agent_id: str) -> dict[str, Any] | None:
        file = self._layout.names.multi_agent_file(session_id, multi_agent_id)
        return self._read_or_set_aside(
            lambda: self._layout.read_multi_agent(session_id, multi_agent_id), dict, file
        )

    def _read_or_set_aside(
        self,
        read: Callable[[], dict[str, Any] | None],
        make: Callable[[dict[str, Any]], R],
        file: str,
    ) -> R | None:
        try:
            found = read()
            if found is None:
                raise FileNotFoundError(file)
            return stored.made(make, found)
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


def _log_left_out(session_id: str, agent_id: str, number: int, error: Exception) -> None:
    logger.error(
        "Message %d of agent %r in session %r is left out: %s", number, agent_id, session_id, error
    )


@contextmanager
def _as_strands_says(what: str) -> Iterator[None]:
    try:
        yield
    except FileExistsError as error:
        raise SessionException(f"{what} exists already") from error
    except FileNotFoundError as error:
        raise SessionException(f"{what} does not exist") from error
    except SuspiciousFileOperation as error:
        raise SessionException(f"{what} is refused: {error}") from error
