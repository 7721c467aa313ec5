"""Strands' ``SessionManager`` on the store: for agents, bidirectional agents, graphs and swarms."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Literal, Self, TypeVar

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

from django_agent_sessions import bridge
from django_agent_sessions.exceptions import (
    ConfigurationError,
)
from django_agent_sessions.ids import new_id, validate_id
from django_agent_sessions.owners import NOBODY
from django_agent_sessions.store import SessionStore

from .conversation import Conversation
from .exclusive import Turns
from .restoring import restore
from .work import OpenSession, SessionWork, seeds

R = TypeVar("R")


class DjangoSessionManager(SessionManager[LocalAgent]):
    """Keeps an agent's conversation and state, or an orchestrator's state, in the database.

    ::

        agent = Agent(session_manager=DjangoSessionManager(session_id, owner=request.user))

    Nothing is read or written before an agent is built with it. In async code, build it with
    :meth:`load`, so that building the agent does no database work in the event loop::

        manager = await DjangoSessionManager.load(session_id, owner=request.user)
        agent = Agent(session_manager=manager)

    Every message is in the database when Strands goes on after it, save inside a caller's
    transaction, which is joined. A message whose write failed is written with the next one.

    Args:
        session_id: The name of the session, unique in its namespace for all owners.
        owner: The user whose session it is, or that user's primary key. Left out, sessions
            without an owner are reached, and made; ``EVERYBODY`` reaches every session.
        namespace: The space of session ids.
        title: A title for a session that is made.
        metadata: JSON for a session that is made.
        using: The alias of the database, if it is not the one that is configured, or that the
            routers answer now.
        create: Whether the session is made if there is none. By default it is, unless the owner
            is ``EVERYBODY``, with which it takes True. Where it is made elsewhere, such as for a
            chat, False keeps an agent from making it anew after it was deleted, and raises
            ``SessionNotFoundError``.
        on_conflict: What to do when another process appended to the same conversation:
            ``"append"`` keeps both, ``"raise"`` raises ``SessionConflictError`` and writes
            nothing.
        exclusive: Whether only one run of the session goes on at a time, in whatever process. A
            run then begins with what the one before it left, and raises ``SessionBusyError`` if
            it had to wait too long, or lost the session meanwhile.
        wait: How many seconds an exclusive run waits for its turn; ``LEASE_WAIT_SECONDS``, if not
            given.

    Raises:
        InvalidIdError: The session id or namespace cannot be one.
        ConfigurationError: ``on_conflict`` is neither, or the owner is None. One who cannot own
            sessions, such as an anonymous user, is refused at the first use.
    """

    def __init__(
        self,
        session_id: str,
        *,
        owner: Any = NOBODY,
        namespace: str = "",
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
        using: str | None = None,
        create: bool | None = None,
        on_conflict: Literal["append", "raise"] = "append",
        exclusive: bool = False,
        wait: float | None = None,
    ) -> None:
        if on_conflict not in ("append", "raise"):
            raise ConfigurationError(
                f"on_conflict must be 'append' or 'raise', not {on_conflict!r}"
            )
        self.session_id = validate_id(session_id)
        # What streams goes on after its request: a router that asks whose it is would then answer
        # for somebody else.
        store = SessionStore(
            owner=owner, namespace=namespace, using=bridge.database(using), create=create
        )
        session = OpenSession(store, self.session_id, title=title, metadata=metadata)
        self._work = SessionWork(session, raises=on_conflict == "raise")
        self._turns = Turns(self._work, wait=wait) if exclusive else None

    @classmethod
    async def load(
        cls,
        session_id: str,
        *,
        owner: Any = NOBODY,
        namespace: str = "",
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
        using: str | None = None,
        create: bool | None = None,
        on_conflict: Literal["append", "raise"] = "append",
        exclusive: bool = False,
        wait: float | None = None,
    ) -> Self:
        """Makes a manager and reads the session ahead, without blocking the event loop.

        Args:
            session_id: As for the class.
            owner: As for the class.
            namespace: As for the class.
            title: As for the class.
            metadata: As for the class.
            using: As for the class.
            create: As for the class.
            on_conflict: As for the class.
            exclusive: As for the class.
            wait: As for the class.

        Returns:
            The manager. An agent that is built with it does no database work while it is built.

        Raises:
            SessionNotFoundError: The session is somebody else's; or there is none, and it is not
                to be made.
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
            create=create,
            on_conflict=on_conflict,
            exclusive=exclusive,
            wait=wait,
        )
        await manager._arun(manager._work.load_ahead)
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
        if self._turns is not None:
            self._turns.register_hooks(registry)

    # --- Strands' interface, all sync --------------------------------------------------------

    def initialize(self, agent: LocalAgent, **kwargs: Any) -> None:
        """Restores an agent from its session, or makes it there.

        Args:
            agent: The agent.
            **kwargs: Ignored.

        Raises:
            SessionException: Another agent of this id uses this manager.
            SessionNotFoundError: The session is somebody else's.
            ConfigurationError: It is a bidirectional agent, and the manager exclusive.
        """
        if self._turns is not None:
            self._turns.refuse_endless(agent)
        known = self._work.conversations.get(agent.agent_id)
        if known is not None and known.is_held_by_another(agent):
            raise SessionException(
                f"Agent id {agent.agent_id!r} is used twice in session {self.session_id!r}: make "
                "a manager for each run, and give each agent of a run its own agent_id"
            )
        conversation = Conversation(weakref.ref(agent))
        if self._work.loaded_agents is None or known is not None:
            # What was loaded is out of date once an agent of this id has used it.
            found = self._run(functools.partial(self._work.read_or_make, conversation, agent))
        else:
            # What was not there when the session was loaded is made with the first message.
            found = self._work.loaded_agents.pop(agent.agent_id, None)
            if found is None:
                conversation.unwritten = seeds(agent)
        if found is not None:
            restore(agent, conversation, found)
        self._work.conversations[agent.agent_id] = conversation

    def append_message(self, message: Message, agent: LocalAgent, **kwargs: Any) -> None:
        """Writes a message of the agent.

        Args:
            message: The message.
            agent: The agent.
            **kwargs: Ignored.

        Raises:
            PayloadError: It is not JSON or over a limit; it is left out of the session.
            SessionConflictError: Another process appended, and the manager was told to raise.
            SessionBusyError: The run lost the session to another one.
        """
        self._run(self._in_turn(agent, functools.partial(self._work.append, message, agent)))

    def sync_agent(self, agent: LocalAgent, **kwargs: Any) -> None:
        """Writes the agent's state, if it changed since it was last written.

        Args:
            agent: The agent.
            **kwargs: Ignored.

        Raises:
            PayloadError: The state is not JSON or over a limit.
        """
        conversation = self._work.conversation(agent)
        if conversation.has_news(agent):
            sync = functools.partial(self._work.sync, conversation, agent)
            self._run(self._in_turn(agent, sync))

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
        self._run(functools.partial(self._work.redact, redact_message, agent))

    def initialize_multi_agent(self, source: MultiAgentBase, **kwargs: Any) -> None:
        """Restores an orchestrator from its session, or makes it there.

        Args:
            source: The graph or swarm.
            **kwargs: Ignored.

        Raises:
            SessionNotFoundError: The session is somebody else's.
        """
        restored = self._run(self._work.orchestrators.reader(source))
        self._work.orchestrators.restore(source, restored)

    def sync_multi_agent(self, source: MultiAgentBase, **kwargs: Any) -> None:
        """Writes an orchestrator's state, if it changed since it was last written.

        Args:
            source: The graph or swarm.
            **kwargs: Ignored.

        Raises:
            PayloadError: The state is not JSON or over a limit.
        """
        if (state := self._work.orchestrators.changed_state(source)) is not None:
            write = functools.partial(self._work.write_orchestrator, source.id, state)
            self._run(self._in_turn(source, write))

    # --- Strands' events ---------------------------------------------------------------------

    def _on_initialized(self, event: AgentInitializedEvent[LocalAgent]) -> None:
        self.initialize(event.agent)

    def _on_run_started(self, event: BeforeInvocationEvent) -> None:
        # An interrupted run goes on: its tool results belong behind its tool calls.
        conversation = self._work.conversation(event.agent)
        if not event.agent._interrupt_state.activated:
            conversation.run_id = new_id()
        conversation.doubtful = bool(conversation.provisional)

    async def _on_message_added(self, event: MessageAddedEvent[LocalAgent]) -> None:
        append = functools.partial(self._work.append, event.message, event.agent)
        await self._arun(self._in_turn(event.agent, append))

    async def _on_message_updated(self, event: MessageUpdatedEvent[LocalAgent]) -> None:
        update = functools.partial(self._work.update, event.message, event.agent)
        await self._arun(self._in_turn(event.agent, update))

    async def _on_run_ended(
        self, event: AfterInvocationEvent | BidiResponseStopEvent | BidiAgentStopEvent
    ) -> None:
        agent = event.agent
        conversation = self._work.conversation(agent)
        if conversation.has_news(agent):
            end = functools.partial(self._work.end_run, conversation, agent)
            await self._end_turn(agent, end)

    async def _on_multi_agent_initialized(self, event: MultiAgentInitializedEvent) -> None:
        restored = await self._arun(self._work.orchestrators.reader(event.source))
        self._work.orchestrators.restore(event.source, restored)

    async def _on_node_ended(self, event: AfterNodeCallEvent) -> None:
        source = event.source
        if (state := self._work.orchestrators.changed_state(source)) is not None:
            write = functools.partial(self._work.write_orchestrator, source.id, state)
            await self._arun(self._in_turn(source, write))

    async def _on_multi_agent_ended(self, event: AfterMultiAgentInvocationEvent) -> None:
        source = event.source
        state = self._work.orchestrators.changed_state(source)
        write = functools.partial(self._work.write_orchestrator, source.id, state, ended=True)
        await self._end_turn(source, write)

    async def _end_turn(
        self, source: LocalAgent | MultiAgentBase, write: Callable[[], object]
    ) -> None:
        try:
            await self._arun(self._in_turn(source, write))
        except BaseException:
            # Strands calls no further hook, so that the one that ends a turn is not reached.
            if self._turns is not None:
                await self._turns.end(source)
            raise

    def _in_turn(
        self, source: LocalAgent | MultiAgentBase, write: Callable[[], R]
    ) -> Callable[[], R]:
        """Makes a write one that an exclusive run does only while it holds the session."""
        return write if self._turns is None else self._turns.guarded(source, write)

    def _run(self, function: Callable[[], R]) -> R:
        return bridge.run_sync(function, using=self._work.store.using)

    async def _arun(self, function: Callable[[], R]) -> R:
        return await bridge.run_async(function, using=self._work.store.using)
