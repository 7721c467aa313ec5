"""The store of sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from django_agent_sessions.db.loop_guard import with_guarded_methods
from django_agent_sessions.db.retries import tracked_atomic, write
from django_agent_sessions.exceptions import (
    ConfigurationError,
    SessionConflictError,
    SessionNotFoundError,
)
from django_agent_sessions.models import Session, deletion
from django_agent_sessions.models.session_names import SessionName, name_in_errors
from django_agent_sessions.values.ids import validate_namespace, validate_scope
from django_agent_sessions.values.owners import EVERYBODY, NOBODY, Reach, refuse_none
from django_agent_sessions.values.records import (
    AgentRecord,
    Append,
    MessageRecord,
    SessionRecord,
    Usage,
    Written,
)

from ._agent_snapshots import Snapshots
from ._agents import Agents
from ._append import append_messages
from ._append_groups import append_twins, write_batch
from ._branches import Branches
from ._context import StoreContext, twin
from ._counters import touch
from ._feedback import Feedback
from ._message_deletion import clear_messages, pop_message
from ._message_reading import payloads_of
from ._messages import Messages
from ._multi_agents import MultiAgents
from ._new_sessions import insert_session, log_unused_metadata
from ._session_names import find_in_reach, find_key, read_session, require_session
from ._sessions import Sessions
from ._turns import Turns


@with_guarded_methods
class SessionStore:
    """Sessions of one owner in one namespace and scope.

    Each method that takes a session takes its record, its model instance, its primary key (a UUID
    or its text) or its ``session_id``, in the namespace and scope. A text that names two sessions
    is refused. A session of another owner is not found by any of them.

    ::

        store = SessionStore(owner=request.user)
        session = store.open("user-123", title="Holiday plans")
        agent = store.agents.open(session)
        store.append(agent, {"role": "user", "content": "Where shall we go?"})
        history = store.payloads(agent)

    Args:
        owner: The user who owns the sessions, or that user's primary key. By default, only
            sessions without an owner can be opened and created. With ``EVERYBODY``, all sessions
            can be opened; the caller must then check access itself.
        namespace: The namespace of the session ids. Two bots with different namespaces can use
            the same ids. A store with a namespace or scope reaches no session outside it; without
            both, a record or a primary key can name any session of the owner.
        scope: A part of the namespace in which the ids are unique, such as a user's id, for
            frameworks that permit two users the same session id. Empty by default, so that ids
            are unique in the namespace.
        using: The database alias; by default ``AGENT_SESSIONS["DATABASE"]`` or the choice of the
            database routers.
        create: Whether :meth:`open` creates a missing session. The default is True, except with
            ``owner=EVERYBODY``, where ``create=True`` creates sessions without an owner.
        reach: The ``reach`` of another store, instead of ``owner``.

    Raises:
        InvalidIdError: The namespace or the scope is invalid.
        ConfigurationError: The owner is None. A user who cannot own sessions, such as an anonymous
            user, is refused at the first use.
    """

    def __init__(
        self,
        *,
        owner: Any = NOBODY,
        namespace: str = "",
        scope: str = "",
        using: str | None = None,
        create: bool | None = None,
        reach: Reach | None = None,
    ) -> None:
        refuse_none(owner)
        reach = Reach(owner) if reach is None else reach
        creates = reach.owner is not EVERYBODY if create is None else create
        self._context = StoreContext(
            reach, validate_namespace(namespace), validate_scope(scope), using, creates
        )

    @property
    def using(self) -> str:
        """The alias of the database."""
        return self._context.using

    @property
    def namespace(self) -> str:
        """The namespace of the session ids."""
        return self._context.namespace

    @property
    def scope(self) -> str:
        """The scope of the session ids in their namespace."""
        return self._context.scope

    @property
    def reach(self) -> Reach:
        """The sessions that the store reaches."""
        return self._context.reach

    @property
    def owner_id(self) -> Any:
        """Primary key of the owner of new sessions and objects; None for no owner.

        Raises:
            ConfigurationError: The owner is a user who cannot own sessions.
        """
        return self._context.reach.owner_id

    @cached_property
    def sessions(self) -> Sessions:
        """List, update and fork sessions, and find them by other ids."""
        return Sessions(self._context)

    @cached_property
    def agents(self) -> Agents:
        """The agents of a session, and their states."""
        return Agents(self._context)

    @cached_property
    def multi_agents(self) -> MultiAgents:
        """The orchestrators of a session (graphs and swarms)."""
        return MultiAgents(self._context)

    @cached_property
    def messages(self) -> Messages:
        """Read, restore, replace and redact messages."""
        return Messages(self._context)

    @cached_property
    def feedback(self) -> Feedback:
        """Feedback on messages (ratings and comments)."""
        return Feedback(self._context)

    @cached_property
    def turns(self) -> Turns:
        """Turns of a conversation, and their usage."""
        return Turns(self._context)

    @cached_property
    def branches(self) -> Branches:
        """Rewind, switch and delete branches of a conversation."""
        return Branches(self._context)

    @cached_property
    def snapshots(self) -> Snapshots:
        """Take, list and restore snapshots of an agent."""
        return Snapshots(self._context)

    def open(
        self,
        session_id: SessionName,
        *,
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> SessionRecord:
        """Read a session, or create it.

        Args:
            session_id: Its id, unique in the namespace and scope across all owners, or another
                name of an existing session.
            title: Title of a created session.
            metadata: JSON metadata of a created session. An existing session keeps its own, and
                a warning is logged if it lacks these values, unless something was redacted in
                it; change it by ``sessions.update``.

        Returns:
            The session.

        Raises:
            SessionNotFoundError: The session belongs to another owner; or it does not exist, and
                the store creates none.
            InvalidIdError: The id is invalid.
            PayloadError: The metadata is not JSON.
        """
        session = self.find(session_id)
        if session is not None:
            log_unused_metadata(self._context, session, metadata)
            return session
        if not self._context.creates:
            if self._context.reach.key is EVERYBODY:
                raise SessionNotFoundError(
                    f"session {session_id!r} does not exist; with owner=EVERYBODY, pass "
                    "create=True to create it"
                )
            raise self._context.not_found(session_id)
        if isinstance(session_id, SessionRecord | Session):
            # It was deleted, and is not created again.
            raise self._context.not_found(session_id)
        created = insert_session(self._context, session_id, title, metadata)
        # It was created concurrently or has another owner: `get` checks the owner again.
        return created if created is not None else self.get(session_id)

    aopen = twin(open)

    def create(
        self,
        session_id: str | UUID,
        *,
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
        session_type: str = "AGENT",
        external_id: str | None = None,
        id: UUID | None = None,  # noqa: A002 - the column's name
        created_at: datetime | None = None,
        updated_at: datetime | None = None,
    ) -> SessionRecord:
        """Create a session.

        Args:
            session_id: Its id.
            title: A title shown to people.
            metadata: JSON for programs.
            session_type: The session type of Strands.
            external_id: An id chosen by a client, unique among the owner's sessions of this
                namespace and scope.
            id: Primary key (UUIDv7); generated by default.
            created_at: Creation time; now by default.
            updated_at: Time of the last change; ``created_at`` by default.

        Returns:
            The session.

        Raises:
            SessionConflictError: The id exists in the namespace, or the external id among the
                owner's sessions.
            InvalidIdError: An id is invalid.
            PayloadError: The metadata is not JSON.
            ConfigurationError: The store does not create sessions.
        """
        if not self._context.creates:
            raise ConfigurationError(
                "this store does not create sessions: pass create=True to create them"
            )
        created = insert_session(
            self._context,
            session_id,
            title,
            metadata,
            session_type=session_type,
            external_id=external_id,
            key=id,
            created_at=created_at,
            updated_at=updated_at,
        )
        if created is None:
            raise SessionConflictError(f"session {session_id!r} already exists")
        return created

    acreate = twin(create)

    def find(self, session_id: SessionName) -> SessionRecord | None:
        """Read a session.

        Args:
            session_id: Its id, or another name.

        Returns:
            The session; None if it does not exist or belongs to another owner.

        Raises:
            InvalidIdError: The id is invalid.
        """
        return read_session(self._context, session_id)

    afind = twin(find)

    def get(self, session_id: SessionName) -> SessionRecord:
        """Read a session that must exist.

        Args:
            session_id: Its id, or another name.

        Returns:
            The session.

        Raises:
            SessionNotFoundError: The session does not exist or belongs to another owner.
            InvalidIdError: The id is invalid.
        """
        return require_session(self._context, session_id)

    aget = twin(get)

    def delete(self, session_id: SessionName) -> bool:
        """Delete a session and everything that belongs to it.

        Args:
            session_id: Its id, or another name.

        Returns:
            False if the session does not exist or belongs to another owner.

        Raises:
            InvalidIdError: The id is invalid.
            LegalHoldError: It is under legal hold.
        """
        # Once, because a large session loses its id before all its messages are deleted.
        key = find_in_reach(self._context, session_id)
        if key is None:
            return False

        def delete(unsure: bool) -> bool:
            row = Session._base_manager.using(self.using).filter(pk=key)
            return bool(deletion.delete_session(row, atomic=tracked_atomic)) or unsure

        what = f"deleting session {name_in_errors(session_id)!r}"
        return write(self.using, delete, what=what, savepoint=False)

    adelete = twin(delete)

    def touch(self, session: SessionName, spent: Usage) -> None:
        """Set the session's last activity to now, and add a turn's usage to its counters.

        Args:
            session: The session.
            spent: Usage of the turn.
        """
        key = find_key(self._context, session)
        if key is not None:
            touch(self.using, key, spent, self._context.sessions())

    atouch = twin(touch)

    def append(
        self,
        agent: AgentRecord,
        message: Any,
        *,
        run_id: UUID | None = None,
        expected: int | None = None,
        epoch: int | None = None,
        count: bool = True,
        again: bool = False,
    ) -> MessageRecord:
        """Append a message.

        Args:
            agent: The agent; its ``branch`` selects the branch.
            message: The payload (exact JSON, bytes allowed), or a ``NewMessage`` with it.
            run_id: Id of the invocation that wrote it; by default that of the
                :func:`~django_agent_sessions.values.run_context.run_context`.
                ``messages.restore`` groups messages of concurrent invocations by it.
            expected: Write only if this is the next position.
            epoch: Write only if the session's redaction epoch still has this value.
            count: Whether to update the session's counters and last activity with the message. A
                caller that appends several messages in a turn passes False and calls :meth:`touch`
                at the end of the turn.
            again: Whether an earlier attempt with an unknown outcome may have written it already;
                it must then be the same ``NewMessage``.

        Returns:
            The message with its position.

        Raises:
            PayloadError: It is not JSON or exceeds a limit; nothing was written.
            SessionNotFoundError: The session or agent was deleted.
            SessionConflictError: The next position is not the expected one, or each attempt
                conflicted with another writer.
            StaleSessionError: The redaction epoch changed.
            BlobError: A large binary could not be stored; nothing was written.
        """
        return self.append_many(
            agent,
            [message],
            run_id=run_id,
            expected=expected,
            epoch=epoch,
            count=count,
            again=again,
        )[0]

    def append_many(
        self,
        agent: AgentRecord,
        messages: Sequence[Any],
        *,
        run_id: UUID | None = None,
        expected: int | None = None,
        epoch: int | None = None,
        count: bool = True,
        again: bool = False,
    ) -> list[MessageRecord]:
        """Append several messages: all of them or none.

        Args:
            agent: The agent; its ``branch`` selects the branch.
            messages: The payloads, in order.
            run_id: See ``append``.
            expected: Write only if this is the next position, which the first message gets.
            epoch: See ``append``.
            count: See ``append``.
            again: See ``append``; any of the messages may be written already.

        Returns:
            The messages with their positions.

        Raises:
            PayloadError: A message is not JSON or exceeds a limit; nothing was written.
            SessionNotFoundError: The session or agent was deleted.
            SessionConflictError: The next position is not the expected one, or each attempt
                conflicted with another writer.
            StaleSessionError: The redaction epoch changed.
            BlobError: A large binary could not be stored; nothing was written.
        """
        append = Append(agent, messages, run_id, expected, epoch, count, again)
        return append_messages(self.using, append)

    aappend, aappend_many = append_twins(append, append_many)

    def write_batch(self, appends: Sequence[Append]) -> list[Written | Exception]:
        """Write several appends, also to different conversations, in one transaction if possible.

        Each append is written completely or not at all, and an error of one is not an error of the
        others: if the transaction fails, each append is written by itself.

        Args:
            appends: The appends. Those to the same conversation are written in this order.

        Returns:
            For each append its messages with their positions, or the error that
            :meth:`append_many` would raise.
        """
        return write_batch(self.using, appends)

    awrite_batch = twin(write_batch)

    def payloads(self, agent: AgentRecord, *, latest: int | None = None) -> list[Any]:
        """Read payloads only, redacted where they were redacted. The fastest way to read messages.

        Args:
            agent: The agent; its ``branch`` selects the branch.
            latest: Read only this number of last messages; None reads all, 0 or less none.

        Returns:
            The payloads in order. Corrupt ones are skipped and logged; ``latest`` does not count
            them.
        """
        return payloads_of(self.using, agent, latest)

    apayloads = twin(payloads)

    def pop(self, agent: AgentRecord) -> Any | None:
        """Delete and return the last message. Two concurrent callers never get the same one.

        Args:
            agent: The agent; its ``branch`` selects the branch.

        Returns:
            Its payload; None if the conversation is empty. A corrupt message is deleted too, and
            the one before it returned.

        Raises:
            LegalHoldError: The session is under legal hold; nothing was deleted.
            SessionConflictError: The connection was lost and it is unknown whether a message was
                deleted; or each attempt conflicted with another writer.
            BlobError: A large binary of the message cannot be read; nothing was deleted.
        """
        popped = pop_message(self.using, agent)
        return None if popped is None else popped.payload

    apop = twin(pop)

    def clear(self, agent: AgentRecord, *, epoch: int | None = None) -> int:
        """Delete all messages of an agent's branch; the session and the agent stay.

        Args:
            agent: The agent; its ``branch`` selects the branch.
            epoch: Delete only if the session's redaction epoch still has this value.

        Returns:
            The number of deleted messages.

        Raises:
            StaleSessionError: The redaction epoch changed; nothing was deleted.
            LegalHoldError: The session is under legal hold; nothing was deleted.
        """
        return clear_messages(self.using, agent, epoch)

    aclear = twin(clear)
