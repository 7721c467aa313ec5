"""Strands' ``SessionManager`` on the store: for agents, bidirectional agents, graphs and swarms."""

from __future__ import annotations

import contextlib
import functools
import math
import warnings
import weakref
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, Unpack
from uuid import UUID

from strands import Agent
from strands.hooks.events import (
    AfterInvocationEvent,
    AfterMultiAgentInvocationEvent,
    AfterNodeCallEvent,
    AgentInitializedEvent,
    BeforeInvocationEvent,
    BeforeMultiAgentInvocationEvent,
    MessageAddedEvent,
    MultiAgentInitializedEvent,
)
from strands.hooks.registry import HookRegistry
from strands.multiagent.base import MultiAgentBase
from strands.session.session_repository import SessionRepository
from strands.types.content import Message
from strands.types.exceptions import SessionException
from strands.types.session import Session as StrandsSession

from django_agent_sessions.adapters.base import exclusive_runs
from django_agent_sessions.content import dialects
from django_agent_sessions.db import bridge
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.values.ids import new_id
from django_agent_sessions.values.owners import NOBODY
from django_agent_sessions.values.records import Usage
from django_agent_sessions.values.run_context import current_run

from . import formats
from .conversation import Conversation, is_prompt
from .exclusive import RunLeases, run_key
from .newer_names import (
    BIDI_STOP_EVENTS,
    MESSAGE_UPDATED_EVENTS,
    LocalAgent,
    LocalSessionManager,
)
from .open_session import OpenSession
from .orchestrators import ENDED_STATUSES
from .repository import DjangoSessionRepository
from .restore import restore_agent
from .session_operations import SessionOperations, initial_messages

if TYPE_CHECKING:
    from strands.bidi.hooks.events import BidiAgentStopEvent, BidiResponseStopEvent
    from strands.hooks.events import MessageUpdatedEvent


_REPOSITORY_METHODS = {name for name in vars(SessionRepository) if not name.startswith("_")}


class ManagerOptions(TypedDict, total=False):
    """The options of :class:`DjangoSessionManager`."""

    owner: Any
    namespace: str
    scope: str
    title: str
    metadata: Mapping[str, Any] | None
    using: str | None
    create: bool | None
    on_conflict: Literal["append", "raise"]
    exclusive: bool
    wait: float | None


class DjangoSessionManager(LocalSessionManager, DjangoSessionRepository):
    """Stores an agent's conversation and state, or an orchestrator's state, in the database.

    ::

        agent = Agent(session_manager=DjangoSessionManager(session_id, owner=request.user))

    The constructor runs no query; building an agent with the manager does. In async code, create
    the manager with :meth:`load`, so that building the agent does not query in the event loop::

        manager = await DjangoSessionManager.load(session_id, owner=request.user)
        agent = Agent(session_manager=manager)

    Every message is committed before Strands continues, except inside a transaction of the caller,
    which the write joins. A message whose write failed is written with the next one.

    Like Strands' file and S3 managers, it is also the repository of its sessions. The agent does
    not use these methods: a subclass overrides ``append_message``, ``sync_agent`` and the other
    methods of a session manager, which then block the event loop.

    Args:
        session_id: The id of the session, unique in its namespace and scope for all owners.
        owner: The user whose session it is, or that user's primary key. If omitted, only sessions
            without an owner are reached and created; ``EVERYBODY`` reaches all sessions.
        namespace: The namespace of session ids.
        scope: A second level below the namespace, such as a tenant; empty by default.
        title: The title of a new session. An existing session keeps its own, without a warning:
            change it by ``SessionStore.sessions.update``.
        metadata: The metadata of a new session, as JSON. An existing session keeps its own, and a
            warning is logged if it lacks these values.
        using: The alias of the database. The default is the configured database, or the routers'
            choice at this time.
        create: Whether a missing session is created. The default is True, except with
            ``owner=EVERYBODY``. False for sessions that are created elsewhere, such as for a chat,
            so that a deleted session is not created again; a missing session then raises
            ``SessionNotFoundError``.
        on_conflict: What to do when another process appended to the same conversation:
            ``"append"`` keeps both, ``"raise"`` raises ``SessionConflictError`` and writes
            nothing.
        exclusive: Whether only one run uses the session at a time, in any process. A run then
            starts with the state that the previous run stored, and raises ``SessionBusyError`` if
            it waited too long or lost its lease.
        wait: Seconds that an exclusive run waits for the lease; by default ``LEASE_WAIT_SECONDS``.

    Raises:
        InvalidIdError: The session id or namespace is invalid.
        ConfigurationError: ``on_conflict`` has another value, or the owner is None. A user who
            cannot own sessions, such as an anonymous one, is refused at the first use.
    """

    def __init__(
        self,
        session_id: str | UUID,
        *,
        owner: Any = NOBODY,
        namespace: str = "",
        scope: str = "",
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
        using: str | None = None,
        create: bool | None = None,
        on_conflict: Literal["append", "raise"] = "append",
        exclusive: bool = False,
        wait: float | None = None,
    ) -> None:
        bridge.refuse_green_threads()
        if on_conflict not in ("append", "raise"):
            raise ConfigurationError(
                f"on_conflict must be 'append' or 'raise', not {on_conflict!r}"
            )
        # Resolved now: a stream outlives its request, and a router that depends on the request
        # would then return another tenant's database.
        DjangoSessionRepository.__init__(
            self,
            owner=owner,
            namespace=namespace,
            scope=scope,
            using=bridge.database(using),
            create=create,
        )
        runs = exclusive_runs(exclusive, wait)
        self._session = OpenSession(
            self._store, session_id, dialects.STRANDS, title=title, metadata=metadata, runs=runs
        )
        self.session_id = self._session.session_id
        self._work = SessionOperations(self._session, raises=on_conflict == "raise")
        self._turns = None if runs is None else RunLeases(self._work, runs)
        self._has_hooks = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in _REPOSITORY_METHODS & cls.__dict__.keys():
            raise ConfigurationError(
                f"{cls.__name__} overrides {name}, which DjangoSessionManager does not call: "
                "override append_message, sync_agent or initialize, or pass a subclass of "
                "DjangoSessionRepository to Strands' RepositorySessionManager"
            )

    @classmethod
    async def load(cls, session_id: str | UUID, **options: Unpack[ManagerOptions]) -> Self:
        """Create a manager and read the session in advance, without blocking the event loop.

        The options are those of the class.

        Returns:
            The manager. An agent that is built with it runs no query while it is built.

        Raises:
            SessionNotFoundError: The session has another owner, or does not exist and must not be
                created.
        """
        manager = cls(session_id, **options)
        await manager._session.arun(manager._work.load_ahead)
        return manager

    @property
    def session(self) -> StrandsSession:
        """The session, as Strands' own managers describe it; it is created if it is missing."""
        return formats.session(self._session.run(self._session.open))

    @property
    def session_repository(self) -> DjangoSessionRepository:
        """The repository of the session: the manager itself."""
        return self

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """Register hooks that write without blocking the event loop."""
        self._has_hooks = True
        # Strands allows no async callback for this event.
        registry.add_callback(AgentInitializedEvent, self._on_initialized)
        registry.add_callback(BeforeInvocationEvent, self._on_run_started)
        registry.add_callback(MessageAddedEvent, self._on_message_added)
        for event in MESSAGE_UPDATED_EVENTS:
            registry.add_callback(event, self._on_message_updated)
        registry.add_callback(AfterInvocationEvent, self._on_run_ending, order=-math.inf)
        registry.add_callback(AfterInvocationEvent, self._on_run_ended)
        for event in BIDI_STOP_EVENTS:
            registry.add_callback(event, self._on_run_ended)
        registry.add_callback(BeforeMultiAgentInvocationEvent, self._on_group_started)
        registry.add_callback(MultiAgentInitializedEvent, self._on_multi_agent_initialized)
        registry.add_callback(AfterNodeCallEvent, self._on_node_ended)
        registry.add_callback(AfterMultiAgentInvocationEvent, self._on_multi_agent_ended)
        if self._turns is not None:
            self._turns.register_hooks(registry)

    # --- Strands' interface, all sync --------------------------------------------------------

    def initialize(self, agent: LocalAgent, **kwargs: Any) -> None:
        """Restore an agent from its session, or create it there.

        Raises:
            SessionException: Another agent with this id uses this manager.
            SessionNotFoundError: The session has another owner.
            ConfigurationError: The agent is bidirectional and the manager exclusive.
        """
        if self._turns is not None:
            self._turns.reject_bidirectional(agent)
            if not self._has_hooks:
                raise ConfigurationError(
                    "exclusive=True requires the manager's own hooks: pass the manager itself to "
                    "the agent, or call its register_hooks() from the manager around it"
                )
        if getattr(agent, "storage", None) is not None:
            # As Strands' own managers warn: once per process, because the caller's depth varies.
            warnings.warn(
                "Agent(storage=...) is set, but DjangoSessionManager does not use it for the "
                "session; use SnapshotSessionManager with DjangoStorage to store all in one place",
                stacklevel=1,
            )
        # Otherwise an override, or the manager around this one, decides what is written.
        self._work.state_with_messages = self._has_hooks and not self._overrides("sync_agent")
        known = self._work.conversations.get(agent.agent_id)
        if known is not None and known.is_of_other_agent(agent):
            raise SessionException(
                f"Agent id {agent.agent_id!r} is used twice in session {self.session_id!r}: create "
                "a manager for each run, and use different agent_ids for the agents of a run"
            )
        conversation = Conversation(weakref.ref(agent))
        if self._work.loaded_agents is None or known is not None:
            # The loaded data is out of date once an agent with this id has used it.
            read = functools.partial(self._work.read_or_create, conversation, agent)
            found = self._session.run(read)
        else:
            # An agent that was not in the loaded session is created with its first message.
            found = self._work.loaded_agents.get(agent.agent_id)
            if found is None:
                conversation.pending_messages = initial_messages(agent)
        if found is not None:
            restore_agent(agent, conversation, found, self.session_id)
        if self._work.loaded_agents is not None:
            self._work.loaded_agents.pop(agent.agent_id, None)
        self._work.conversations[agent.agent_id] = conversation

    def append_message(self, message: Message, agent: LocalAgent, **kwargs: Any) -> None:
        """Write a message of the agent.

        Raises:
            PayloadError: The message is not JSON or exceeds a limit; it is not stored.
            SessionConflictError: Another process appended, and ``on_conflict`` is ``"raise"``.
            SessionBusyError: The run lost its lease.
        """
        if not self._has_hooks and is_prompt(message):
            self._begin_run(agent)
        external_id, is_stored = self._work.take_question(message)
        if is_stored:
            self._work.conversation(agent).withhold(message)
            return
        append = self._work.append(message, agent, external_id)
        self._session.run_steps(append, key=agent.agent_id)

    def sync_agent(self, agent: LocalAgent, **kwargs: Any) -> None:
        """Write the agent's state, if it has changed since it was last written, and count usage.

        Raises:
            PayloadError: The state is not JSON or exceeds a limit.
        """
        conversation = self._work.conversation(agent)
        if not self._has_hooks and agent.messages:
            # The manager around this one was given each message.
            conversation.withhold(agent.messages[-1])
        if conversation.has_changes(agent):
            end = functools.partial(self._work.end_run, conversation, agent)
            self._session.run(end, key=agent.agent_id)

    def redact_latest_message(
        self, redact_message: Message, agent: LocalAgent, **kwargs: Any
    ) -> None:
        """Replace the agent's latest message; the original is deleted permanently.

        Raises:
            SessionException: The agent has no message.
        """
        self._session.run(functools.partial(self._work.redact, redact_message, agent))

    def initialize_multi_agent(self, source: MultiAgentBase, **kwargs: Any) -> None:
        """Restore an orchestrator from its session, or create it there.

        Raises:
            SessionNotFoundError: The session has another owner.
        """
        restored = self._session.run(self._work.orchestrators.make_reader(source))
        self._work.restore_orchestrator(source, restored)

    def sync_multi_agent(self, source: MultiAgentBase, **kwargs: Any) -> None:
        """Write an orchestrator's state, if it has changed since it was last written.

        Raises:
            PayloadError: The state is not JSON or exceeds a limit.
        """
        if (state := self._work.orchestrators.changed_state(source)) is not None:
            # The hooks of this manager know when an invocation ends.
            ended = not self._has_hooks and state.get("status") in ENDED_STATUSES
            write = functools.partial(self._work.write_orchestrator, source.id, state, ended=ended)
            self._session.run(write, key=run_key(source))

    # --- Strands' events ---------------------------------------------------------------------

    def _on_initialized(self, event: AgentInitializedEvent[LocalAgent]) -> None:
        self.initialize(event.agent)

    def _on_run_started(self, event: BeforeInvocationEvent) -> None:
        self._session.trace(event.agent.agent_id)
        self._begin_run(event.agent)

    def _begin_run(self, agent: LocalAgent) -> None:
        self._session.forget_failure()
        # A resumed run keeps its run id: its tool results belong after its tool calls.
        conversation = self._work.conversation(agent)
        if not (isinstance(agent, Agent) and agent._interrupt_state.activated):
            conversation.run_id = current_run().run_id or new_id()
        conversation.must_check_rollback = bool(conversation.uncommitted_ids)

    def _overrides(self, name: str) -> bool:
        """Return whether a method of this class is overridden, as Strands would call it."""
        method = getattr(self, name)
        return getattr(method, "__func__", None) is not getattr(DjangoSessionManager, name)

    async def _on_message_added(self, event: MessageAddedEvent[LocalAgent]) -> None:
        if self._overrides("append_message"):
            self.append_message(event.message, event.agent)
            self._work.conversation(event.agent).withhold(event.message)
        else:
            await self._append(event)
        if self._overrides("sync_agent"):
            self.sync_agent(event.agent)

    async def _append(self, event: MessageAddedEvent[LocalAgent]) -> None:
        agent = event.agent
        conversation = self._work.conversation(agent)
        external_id, is_stored = self._work.take_question(event.message)
        if is_stored:
            conversation.withhold(event.message)
            return
        append = self._work.append(event.message, agent, external_id)
        await self._session.arun_steps(append, conversation, key=agent.agent_id)

    async def _on_message_updated(self, event: MessageUpdatedEvent[LocalAgent]) -> None:
        update = functools.partial(self._work.update, event.message, event.agent)
        await self._session.arun(update, key=event.agent.agent_id)

    async def _on_run_ending(self, event: AfterInvocationEvent) -> None:
        # Before the hooks of others, of which one may fail, or be cancelled with the run: Strands
        # then calls none after it.
        conversation = self._work.conversation(event.agent)
        if conversation.spent != Usage():
            count = functools.partial(self._work.count, conversation)
            # After an error, the end of the run tries again, and raises it.
            with contextlib.suppress(Exception):
                await self._session.arun(count, key=event.agent.agent_id)

    async def _on_run_ended(
        self, event: AfterInvocationEvent | BidiResponseStopEvent | BidiAgentStopEvent
    ) -> None:
        agent = event.agent
        conversation = self._work.conversation(agent)
        if self._overrides("sync_agent"):
            await self._end_turn(agent, lambda: _call(self.sync_agent, agent))
        elif conversation.has_changes(agent):
            end = functools.partial(self._work.end_run, conversation, agent)
            await self._end_turn(agent, lambda: self._session.arun(end, key=run_key(agent)))

    def _on_group_started(self, event: BeforeMultiAgentInvocationEvent) -> None:
        self._session.forget_failure()

    async def _on_multi_agent_initialized(self, event: MultiAgentInitializedEvent) -> None:
        if self._overrides("initialize_multi_agent"):
            self.initialize_multi_agent(event.source)
            return
        restored = await self._session.arun(self._work.orchestrators.make_reader(event.source))
        self._work.restore_orchestrator(event.source, restored)

    async def _on_node_ended(self, event: AfterNodeCallEvent) -> None:
        source = event.source
        if self._overrides("sync_multi_agent"):
            self.sync_multi_agent(source)
        elif (state := self._work.orchestrators.changed_state(source)) is not None:
            write = functools.partial(self._work.write_orchestrator, source.id, state)
            await self._session.arun(write, key=run_key(source))

    async def _on_multi_agent_ended(self, event: AfterMultiAgentInvocationEvent) -> None:
        source, state = event.source, None
        if self._overrides("sync_multi_agent"):
            await self._end_turn(source, lambda: _call(self.sync_multi_agent, source))
        else:
            state = self._work.orchestrators.changed_state(source)
        write = functools.partial(self._work.write_orchestrator, source.id, state, ended=True)
        await self._end_turn(source, lambda: self._session.arun(write, key=run_key(source)))

    async def _end_turn(
        self, source: LocalAgent | MultiAgentBase, end: Callable[[], Awaitable[object]]
    ) -> None:
        try:
            await end()
        except BaseException:
            # Strands calls no further hook after an error, so the lease must be released here.
            if self._session.runs is not None:
                await self._session.runs.aend(run_key(source))
            raise


async def _call(method: Callable[[Any], object], source: LocalAgent | MultiAgentBase) -> None:
    method(source)
