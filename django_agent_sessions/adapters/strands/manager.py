"""Strands' ``SessionManager`` on the store: for agents, bidirectional agents, graphs and swarms."""

from __future__ import annotations

import functools
import logging
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Literal, Self, TypeVar, cast

from django.db import connections
from strands.bidi.hooks.events import BidiAgentStopEvent, BidiResponseStopEvent
from strands.hooks.events import (
    AfterInvocationEvent,
    AfterMultiAgentInvocationEvent,
    AfterNodeCallEvent,
    AgentInitializedEvent,
    BeforeInvocationEvent,
    MessageAddedEvent,
    MessageUpdatedEvent,
    MultiAgentInitializedEvent,
)
from strands.hooks.registry import HookRegistry
from strands.multiagent.base import MultiAgentBase
from strands.session.session_manager import SessionManager
from strands.types.agent import LocalAgent
from strands.types.content import Message
from strands.types.exceptions import SessionException
from strands.types.session import SessionAgent

from django_agent_sessions import bridge, payloads, transcripts
from django_agent_sessions.exceptions import (
    ConfigurationError,
    PayloadError,
    SessionConflictError,
    StaleSessionError,
)
from django_agent_sessions.ids import new_id, validate_id
from django_agent_sessions.records import AgentRecord, NewMessage, SessionRecord, Usage
from django_agent_sessions.store import SessionStore

from . import formats
from .conversation import Conversation, Stored, fingerprint, tracked
from .orchestrators import Orchestrators
from .restoring import Restored, check_dialect, is_message, restore

logger = logging.getLogger("django_agent_sessions")

R = TypeVar("R")


class DjangoSessionManager(SessionManager[LocalAgent]):
    """Keeps an agent's conversation and state, or an orchestrator's state, in the database.

    ::

        agent = Agent(session_manager=DjangoSessionManager("user-123", owner=request.user))

    Nothing is read or written before an agent is built with it. In async code, build it with
    :meth:`load`, so that building the agent does no database work in the event loop::

        manager = await DjangoSessionManager.load("user-123", owner=request.user)
        agent = Agent(session_manager=manager)

    Every message is in the database when Strands goes on after it, save inside a caller's
    transaction, which is joined. A message whose write failed is written with the next one.

    Args:
        session_id: The name of the session. It may come from a browser, if there is an owner.
        owner: The user whose session it is, or that user's primary key.
        namespace: The space of session ids.
        title: A title for a session that is made.
        metadata: JSON for a session that is made.
        using: The alias of the database.
        on_conflict: What to do when another process appended to the same conversation:
            ``"append"`` keeps both, ``"raise"`` raises ``SessionConflictError`` and writes
            nothing.

    Raises:
        InvalidIdError: The session id or namespace cannot be one.
        ConfigurationError: ``on_conflict`` is neither.
    """

    def __init__(
        self,
        session_id: str,
        *,
        owner: Any = None,
        namespace: str = "",
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
        using: str | None = None,
        on_conflict: Literal["append", "raise"] = "append",
    ) -> None:
        if on_conflict not in ("append", "raise"):
            raise ConfigurationError(
                f"on_conflict must be 'append' or 'raise', not {on_conflict!r}"
            )
        self.session_id = validate_id(session_id)
        self._store = SessionStore(owner=owner, namespace=namespace, using=using)
        self._title = title
        self._metadata = metadata
        self._raises = on_conflict == "raise"
        self._session: SessionRecord | None = None
        self._epoch = 0
        self._conversations: dict[str, Conversation] = {}
        self._loaded_agents: dict[str, tuple[AgentRecord, Restored]] | None = None
        self._orchestrators = Orchestrators(self._store, self._open)

    @classmethod
    async def load(
        cls,
        session_id: str,
        *,
        owner: Any = None,
        namespace: str = "",
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
        using: str | None = None,
        on_conflict: Literal["append", "raise"] = "append",
    ) -> Self:
        """Makes a manager and reads the session ahead, without blocking the event loop.

        Args:
            session_id: As for the class.
            owner: As for the class.
            namespace: As for the class.
            title: As for the class.
            metadata: As for the class.
            using: As for the class.
            on_conflict: As for the class.

        Returns:
            The manager. An agent that is built with it does no database work while it is built.

        Raises:
            SessionNotFoundError: The session is somebody else's.
            InvalidIdError: As for the class.
            ConfigurationError: As for the class.
        """
        manager = cls(
            session_id,
            owner=owner,
            namespace=namespace,
            title=title,
            metadata=metadata,
            using=using,
            on_conflict=on_conflict,
        )
        await manager._arun(manager._load_ahead)
        return manager

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """Registers what persists an agent or orchestrator: async, so that no loop is blocked.

        Args:
            registry: The agent's or orchestrator's hooks.
            **kwargs: Ignored.
        """
        # Strands allows no async callback here.
        registry.add_callback(AgentInitializedEvent, self._on_initialized)
        registry.add_callback(BeforeInvocationEvent, self._on_run_started)
        registry.add_callback(MessageAddedEvent, self._on_message_added)
        registry.add_callback(MessageUpdatedEvent, self._on_message_updated)
        registry.add_callback(AfterInvocationEvent, self._on_run_ended)
        registry.add_callback(BidiResponseStopEvent, self._on_run_ended)
        registry.add_callback(BidiAgentStopEvent, self._on_run_ended)
        registry.add_callback(MultiAgentInitializedEvent, self._on_multi_agent_initialized)
        registry.add_callback(AfterNodeCallEvent, self._on_node_ended)
        registry.add_callback(AfterMultiAgentInvocationEvent, self._on_multi_agent_ended)

    # --- Strands' interface, all sync --------------------------------------------------------

    def initialize(self, agent: LocalAgent, **kwargs: Any) -> None:
        """Restores an agent from its session, or makes it there.

        Args:
            agent: The agent.
            **kwargs: Ignored.

        Raises:
            SessionException: Another agent of this id uses this manager.
            SessionNotFoundError: The session is somebody else's.
        """
        known = self._conversations.get(agent.agent_id)
        if known is not None and known.is_held_by_another(agent):
            raise SessionException(
                f"Agent id {agent.agent_id!r} is used twice in session {self.session_id!r}: give "
                "each agent its own agent_id"
            )
        conversation = Conversation(weakref.ref(agent))
        if self._loaded_agents is None or known is not None:
            # What was loaded is out of date once an agent of this id has used it.
            found = self._run(functools.partial(self._read_or_make, conversation, agent))
        else:
            # What was not there when the session was loaded is made with the first message.
            found = self._loaded_agents.pop(agent.agent_id, None)
            if found is None:
                conversation.unwritten = _seeds(agent)
        if found is not None:
            restore(agent, conversation, *found)
        self._conversations[agent.agent_id] = conversation

    def append_message(self, message: Message, agent: LocalAgent, **kwargs: Any) -> None:
        """Writes a message of the agent.

        Args:
            message: The message.
            agent: The agent.
            **kwargs: Ignored.

        Raises:
            PayloadError: It is not JSON or over a limit; it is left out of the session.
            SessionConflictError: Another process appended, and the manager was told to raise.
        """
        self._run(functools.partial(self._append, message, agent))

    def sync_agent(self, agent: LocalAgent, **kwargs: Any) -> None:
        """Writes the agent's state, if it changed since it was last written.

        Args:
            agent: The agent.
            **kwargs: Ignored.

        Raises:
            PayloadError: The state is not JSON or over a limit.
        """
        conversation = self._conversation(agent)
        if conversation.has_news(agent):
            self._run(functools.partial(self._sync, conversation, agent))

    def redact_latest_message(
        self, redact_message: Message, agent: LocalAgent, **kwargs: Any
    ) -> None:
        """Overwrites the agent's latest message; the original is gone for good.

        Args:
            redact_message: What to keep in its place.
            agent: The agent.
            **kwargs: Ignored.

        Raises:
            SessionException: The agent has no message.
        """
        self._run(functools.partial(self._redact, redact_message, agent))

    def initialize_multi_agent(self, source: MultiAgentBase, **kwargs: Any) -> None:
        """Restores an orchestrator from its session, or makes it there.

        Args:
            source: The graph or swarm.
            **kwargs: Ignored.

        Raises:
            SessionNotFoundError: The session is somebody else's.
        """
        restored = self._run(self._orchestrators.reader(source))
        self._orchestrators.restore(source, restored)

    def sync_multi_agent(self, source: MultiAgentBase, **kwargs: Any) -> None:
        """Writes an orchestrator's state, if it changed since it was last written.

        Args:
            source: The graph or swarm.
            **kwargs: Ignored.

        Raises:
            PayloadError: The state is not JSON or over a limit.
        """
        if (state := self._orchestrators.changed_state(source)) is not None:
            self._run(functools.partial(self._orchestrators.write, source.id, state))

    # --- Strands' events ---------------------------------------------------------------------

    def _on_initialized(self, event: AgentInitializedEvent[LocalAgent]) -> None:
        self.initialize(event.agent)

    def _on_run_started(self, event: BeforeInvocationEvent) -> None:
        # An interrupted run goes on: its tool results belong behind its tool calls.
        conversation = self._conversation(event.agent)
        if not event.agent._interrupt_state.activated:
            conversation.run_id = new_id()
        conversation.doubtful = bool(conversation.provisional)

    async def _on_message_added(self, event: MessageAddedEvent[LocalAgent]) -> None:
        await self._arun(functools.partial(self._append, event.message, event.agent))

    async def _on_message_updated(self, event: MessageUpdatedEvent[LocalAgent]) -> None:
        await self._arun(functools.partial(self._update, event.message, event.agent))

    async def _on_run_ended(
        self, event: AfterInvocationEvent | BidiResponseStopEvent | BidiAgentStopEvent
    ) -> None:
        agent = event.agent
        conversation = self._conversation(agent)
        if conversation.has_news(agent):
            await self._arun(functools.partial(self._end_run, conversation, agent))

    async def _on_multi_agent_initialized(self, event: MultiAgentInitializedEvent) -> None:
        restored = await self._arun(self._orchestrators.reader(event.source))
        self._orchestrators.restore(event.source, restored)

    async def _on_node_ended(self, event: AfterNodeCallEvent) -> None:
        source = event.source
        if (state := self._orchestrators.changed_state(source)) is not None:
            await self._arun(functools.partial(self._orchestrators.write, source.id, state))

    async def _on_multi_agent_ended(self, event: AfterMultiAgentInvocationEvent) -> None:
        source = event.source
        state = self._orchestrators.changed_state(source)
        await self._arun(functools.partial(self._orchestrators.write, source.id, state, ended=True))

    # --- database work, in whatever thread the bridge chooses --------------------------------

    def _open(self) -> SessionRecord:
        if self._session is None:
            self._session = self._store.open(
                self.session_id, title=self._title, metadata=self._metadata
            )
            self._epoch = self._session.redaction_epoch
        return self._session

    def _load_ahead(self) -> None:
        session = self._open()
        self._loaded_agents = {
            record.agent_id: (record, self._messages_of(record))
            for record in self._store.list_agents(session)
            if record.dialect == transcripts.STRANDS
        }
        self._orchestrators.load_ahead()

    def _read_or_make(
        self, conversation: Conversation, agent: LocalAgent
    ) -> tuple[AgentRecord, Restored] | None:
        record = self._store.read_agent(self._open(), agent.agent_id)
        if record is not None:
            return record, self._messages_of(record)
        conversation.unwritten = _seeds(agent)
        self._write(conversation, agent)
        return None

    def _messages_of(self, record: AgentRecord) -> Restored:
        check_dialect(record)
        # Where no window is known, Strands' own count of removed messages is an offset.
        removed = record.data.conversation_manager_state.get("removed_message_count", 0)
        restored = self._store.restore(record, offset=removed)
        odd = [position for position, message, _ in restored if not is_message(message)]
        for position in odd:
            logger.warning(
                "message %d of agent %s (row %s) is none of Strands' and was left out",
                position,
                record.agent_id,
                record.id,
            )
        return [row for row in restored if row[0] not in odd] if odd else restored

    def _append(self, message: Message, agent: LocalAgent) -> None:
        conversation = self._conversation(agent)
        with conversation.lock:
            self._append_alone(conversation, message, agent)

    def _append_alone(
        self, conversation: Conversation, message: Message, agent: LocalAgent
    ) -> None:
        grown = conversation.grown(tracked(message))
        if grown is not None:
            self._replace(conversation, grown, message)
        else:
            conversation.unwritten.append(NewMessage(message))
        self._write(conversation, agent)

    def _update(self, message: Message, agent: LocalAgent) -> None:
        conversation = self._conversation(agent)
        with conversation.lock:
            stored = conversation.find(message["tracking_id"])
            if stored is not None:
                self._replace(conversation, stored, message)
            else:
                conversation.rewrite_unwritten(message)

    def _replace(self, conversation: Conversation, stored: Stored, message: Message) -> None:
        row = _row_of(conversation)
        try:
            self._store.update_message(
                row, stored.position, message, epoch=self._epoch, key=stored.key
            )
        except StaleSessionError:
            self._reload()
            if stored.message["content"] != stored.content:
                # It was redacted by somebody else; what grew behind it stays.
                grown = message["content"][len(stored.content) :]
                message["content"] = [*stored.message["content"], *grown]
            self._store.update_message(
                row, stored.position, message, epoch=self._epoch, key=stored.key
            )
        conversation.remember(stored.position, message, stored.key)

    def _write(self, conversation: Conversation, agent: LocalAgent) -> None:
        """Writes what of an agent is not in the database: its row, messages and state."""
        with conversation.lock:
            self._drop_rolled_back(conversation)
            try:
                self._write_at(conversation, agent, self._epoch)
            except StaleSessionError:
                self._reload()
                self._write_at(conversation, agent, self._epoch)

    def _write_at(self, conversation: Conversation, agent: LocalAgent, epoch: int) -> None:
        if conversation.record is None:
            # The agent's loop goes on meanwhile: what it changes then is still to be written.
            current = fingerprint(agent)
            record = self._store.open_agent(
                self._open(),
                agent.agent_id,
                dialect=transcripts.STRANDS,
                data=formats.agent_state(SessionAgent.from_agent(agent)),
            )
            check_dialect(record)
            conversation.record = record
            conversation.mark_synced(current)
        if conversation.unwritten:
            self._write_messages(conversation, conversation.record, epoch)
        if (news := conversation.unsynced(agent)) is not None:
            state, current = news
            self._store.update_agent(conversation.record, state, epoch=epoch)
            conversation.mark_synced(current)

    def _write_messages(self, conversation: Conversation, record: AgentRecord, epoch: int) -> None:
        new = conversation.unwritten
        try:
            written = self._store.append_many(
                record,
                new,
                run_id=conversation.run_id,
                expected=conversation.next_position if self._raises else None,
                epoch=epoch,
                count=False,
                again=conversation.unsure,
            )
        except StaleSessionError:
            raise
        except PayloadError:
            # Nothing was written. What can never be written must not stand in the way of what
            # comes next.
            sound = [message for message in new if _is_sound(message)]
            conversation.unwritten = sound if len(sound) < len(new) else new[:-1]
            raise
        except SessionConflictError:
            # A caller who wants to hear of a conflict decides what to do.
            if self._raises:
                conversation.unwritten = new[:-1]
            raise
        except Exception:
            conversation.unsure = True
            raise
        conversation.unwritten = []
        conversation.unsure = False
        conversation.remember_written(written)
        if connections[self._store.using].in_atomic_block:
            conversation.provisional.update(record.id for record in written)
        conversation.spent += _spent(new)

    def _drop_rolled_back(self, conversation: Conversation) -> None:
        """Forgets what was written in a transaction that was rolled back.

        An agent that is used again after that would else take another writer's message, at the
        same position, for its own.
        """
        if not conversation.doubtful:
            return
        conversation.doubtful = False
        there = self._store.positions(conversation.provisional)
        gone = conversation.provisional - there.keys()
        in_transaction = connections[self._store.using].in_atomic_block
        conversation.provisional = set(there) if in_transaction else set()
        if gone and conversation.record is not None:
            conversation.forget(gone)
            # The session and the agent may be gone with them.
            self._session = None
            conversation.record = self._store.read_agent(self._open(), conversation.record.agent_id)

    def _sync(self, conversation: Conversation, agent: LocalAgent) -> None:
        self._write(conversation, agent)
        for stored in conversation.repinned(agent):
            try:
                self._store_pin(conversation, stored)
            except StaleSessionError:
                self._reload()
                self._store_pin(conversation, stored)

    def _store_pin(self, conversation: Conversation, stored: Stored) -> None:
        row = _row_of(conversation)
        # What is stored, because a conversation manager may have shortened what the agent holds.
        found = self._store.read_message(row, stored.position)
        if found is not None:
            message = {k: v for k, v in found.content.items() if k != "metadata"}
            if "metadata" in stored.message:
                message["metadata"] = stored.message["metadata"]
            self._store.update_message(
                row, stored.position, message, epoch=self._epoch, key=stored.key
            )
        conversation.remember(stored.position, stored.message, stored.key)

    def _end_run(self, conversation: Conversation, agent: LocalAgent) -> None:
        self._sync(conversation, agent)
        if conversation.spent != Usage():
            self._store.touch(_row_of(conversation).session, conversation.spent)
            conversation.spent = Usage()

    def _redact(self, redact_message: Message, agent: LocalAgent) -> None:
        conversation = self._conversation(agent)
        with conversation.lock:
            self._drop_rolled_back(conversation)
            if conversation.unwritten:
                # Its write failed: what will be written instead is the redacted version.
                payload = conversation.unwritten[-1].payload
                _forget(payload, _with_id_of(redact_message, payload))
                return
            latest = conversation.latest
            if latest is None:
                raise SessionException("There is no message to redact")
            # A prompt that was tried again stands in the conversation more than once.
            same = {stored.position: stored for stored in conversation.same_as(latest.message)}
            same |= {stored.position: stored for stored in conversation.same_as(redact_message)}
            for stored in {**same, latest.position: latest}.values():
                self._redact_stored(conversation, stored, redact_message)

    def _redact_stored(
        self, conversation: Conversation, stored: Stored, redact_message: Message
    ) -> None:
        redacted = _with_id_of(redact_message, stored.message)
        epoch = self._store.redact_message(
            _row_of(conversation), stored.position, redacted, key=stored.key
        )
        # If somebody else redacted too, the next write has to find that out.
        if epoch == self._epoch + 1:
            self._epoch = epoch
        _forget(stored.message, redacted)
        conversation.remember(stored.position, stored.message, stored.key)

    def _reload(self) -> None:
        """Reads again what was redacted, so that the agents forget it too."""
        self._session = None
        self._open()
        for conversation in self._conversations.values():
            if conversation.record is None:
                continue
            contents = {
                record.message_id: record.content
                for record in self._store.messages(conversation.record)
                if record.redact_message is not None
            }
            for stored in conversation.all_stored():
                content = contents.get(stored.position)
                if content is not None and content != stored.message:
                    _forget(stored.message, content)

    # --- bookkeeping -------------------------------------------------------------------------

    def _conversation(self, agent: LocalAgent) -> Conversation:
        try:
            return self._conversations[agent.agent_id]
        except KeyError:
            raise SessionException(
                f"Agent {agent.agent_id!r} was not built with the session manager of "
                f"{self.session_id!r}"
            ) from None

    def _run(self, function: Callable[[], R]) -> R:
        return bridge.run_sync(function, using=self._store.using)

    async def _arun(self, function: Callable[[], R]) -> R:
        return await bridge.run_async(function, using=self._store.using)


def _row_of(conversation: Conversation) -> AgentRecord:
    if conversation.record is None:
        raise SessionException("The agent has no message yet")
    return conversation.record


def _seeds(agent: LocalAgent) -> list[NewMessage]:
    return [NewMessage(tracked(message)) for message in agent.messages]


def _forget(message: Message, redacted: Message) -> None:
    """Redacts a message in memory: in place, because the agent holds this very dict."""
    if message is not redacted:
        message.clear()  # type: ignore[attr-defined]
        message.update(redacted)


def _with_id_of(redacted: Message, original: Message) -> Message:
    """Keeps Strands' id of a message whose redacted version has none."""
    if redacted.get("tracking_id") or not original.get("tracking_id"):
        return redacted
    return cast("Message", {**redacted, "tracking_id": original["tracking_id"]})


def _is_sound(message: NewMessage) -> bool:
    try:
        payloads.dumps(message.payload)
    except PayloadError:
        return False
    return True


def _spent(messages: list[NewMessage]) -> Usage:
    spent = Usage()
    for message in messages:
        summary = transcripts.summary(transcripts.STRANDS, message.payload)
        spent += Usage(1, summary.input_tokens or 0, summary.output_tokens or 0)
    return spent
