"""The session for the SDK's Runner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from dataclasses import fields, replace
from functools import partial
from inspect import isawaitable, iscoroutine
from typing import TYPE_CHECKING, Any, Self, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

from agents import RunContextWrapper, TResponseInputItem
from agents.memory import OpenAIResponsesCompactionArgs
from agents.memory.session_settings import SessionSettings, resolve_session_limit

from django_agent_sessions.adapters.base import MAIN_AGENT, ConversationSession, exclusive_runs
from django_agent_sessions.content import dialects
from django_agent_sessions.db import bridge
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.ids import new_id, validate_id, validate_namespace, validate_scope
from django_agent_sessions.values.owners import NOBODY, refuse_none
from django_agent_sessions.values.records import AgentRecord
from django_agent_sessions.values.run_context import current_run

from .compaction import Compaction
from .compaction_runs import CompactionRuns
from .item_redaction import redact_openai_item
from .model_history import items_for_model, start_of_turns
from .run_states import RunStates
from .run_usage import RunUsage

if TYPE_CHECKING:
    # In another module of older releases of the SDK.
    from agents.run_config import CallModelData, ModelInputData

R = TypeVar("R")

_OUTSIDE = (
    "an exclusive session is used within `async with session:`, or `with session:` around "
    "Runner.run_sync"
)

_Context = RunContextWrapper[Any]


def _settings(given: SessionSettings | dict[str, Any] | None) -> SessionSettings:
    if isinstance(given, SessionSettings):
        return given
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"session_settings is a SessionSettings or a dict, not {type(given)}")
    # Only some of the SDK's releases convert dicts, and refuse unknown names.
    if unknown := (given or {}).keys() - {each.name for each in fields(SessionSettings)}:
        raise TypeError(f"session_settings has no {', '.join(sorted(map(str, unknown)))}")
    return SessionSettings(**(given or {}))


def resolve_turn_limit(turn_limit: int | None, settings: SessionSettings | None) -> int | None:
    """Return how many turns to read, None for all; not every release's settings have it."""
    turns = getattr(settings, "turn_limit", None) if turn_limit is None else turn_limit
    return None if turns is not None and turns < 0 else turns


class _Closed:
    """The result of ``close()``, which may be awaited: some of the SDK's sessions require it."""

    def __await__(self) -> Generator[Any, Any, None]:
        yield from ()


def resolve_limit(limit: int | None, settings: SessionSettings | None) -> int | None:
    """Return how many items to read, None for all: as in the SDK, also for a negative number."""
    latest = resolve_session_limit(limit, settings)
    return None if latest is not None and latest < 0 else latest


class DjangoSession(RunStates):
    """A conversation in the project's database, for ``Runner.run(…, session=…)``.

    It is a ``Session`` of the SDK. The constructor runs no query, so it can be called anywhere; the
    first item creates the rows. An object may be used by several tasks at once.

    Args:
        session_id: The id of the session, unique in its namespace and scope for all owners.
        agent_id: The id of the agent in the session. Each agent of a session has its own
            conversation.
        owner: The owner: a user, that user's primary key, or a callable that returns one of them.
            It is called in the event loop at each use with the ``RunContextWrapper`` of the run, or
            None outside a run; it may be async, and must be async to query the database. If
            omitted, only sessions without an owner are reached and created; ``EVERYBODY`` reaches
            all sessions.
        namespace: The namespace of session ids.
        scope: A second level below the namespace, such as a tenant; empty by default.
        session_settings: The default number of items to read; a dict with the same keys is allowed.
        title: The title of a new session. An existing session keeps its own, without a warning:
            change it by ``SessionStore.sessions.update``.
        metadata: The metadata of a new session, as JSON. An existing session keeps its own, and a
            warning is logged if it lacks these values.
        using: The alias of the database. The default is the configured database, or the routers'
            choice at this time; with a callable owner, at each use.
        create: Whether the first item creates the session. The default is True, except with
            ``owner=EVERYBODY``. False for sessions that are created elsewhere, so that a deleted
            session is not created again.
        exclusive: Whether only one run uses the session at a time, in any process. It must then be
            used in a block, ``async with session:``, or ``with session:`` around
            ``Runner.run_sync``, which waits for the lease and creates the session.
        wait: Seconds that the block waits for the lease; by default ``LEASE_WAIT_SECONDS``.
        compaction: How the conversation is summarized when it becomes long, by the Runner after a
            run and by :attr:`run_compaction`. None, the default, never summarizes it.
        model: The name of the model that answers, for the figures of usage and cost: the SDK does
            not pass it to sessions. The attribute can be assigned before another run.

    Attributes:
        session_id: The id of the session.
        agent_id: The id of the agent.
        namespace: The namespace of session ids.
        session_settings: The given settings, or ``SessionSettings()``; can be assigned.

    Raises:
        InvalidIdError: The session id, the agent id, the namespace or the scope is invalid.
        TypeError: ``session_settings`` has an unknown key.
        ConfigurationError: The owner is None. A user who cannot own sessions, such as an anonymous
            one, is refused at the first use.
    """

    session_id: str
    namespace: str
    session_settings: SessionSettings | None
    _session_class: type[ConversationSession] = ConversationSession

    def __init__(
        self,
        session_id: str | UUID,
        *,
        agent_id: str | UUID = MAIN_AGENT,
        owner: Any | Callable[[_Context | None], Any] = NOBODY,
        namespace: str = "",
        scope: str = "",
        session_settings: SessionSettings | dict[str, Any] | None = None,
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
        using: str | None = None,
        create: bool | None = None,
        exclusive: bool = False,
        wait: float | None = None,
        compaction: Compaction | None = None,
        model: str = "",
    ) -> None:
        # Before the SDK starts an event loop, which other greenlets would see as theirs.
        bridge.refuse_green_threads()
        self.session_id = validate_id(session_id)
        self.agent_id = validate_id(agent_id, "agent_id")
        self.session_settings = _settings(session_settings)
        refuse_none(owner)
        self._owner = owner
        self.namespace = validate_namespace(namespace)
        self._scope = validate_scope(scope)
        self._title = title
        self._metadata = metadata
        # Resolved now: a stream outlives its request, and a router that depends on the request
        # would then return another tenant's database. With a callable owner there may be no
        # request yet.
        self._using = using if callable(owner) else bridge.database(using)
        self._create = create
        self._exclusive = exclusive_runs(exclusive, wait, outside=_OUTSIDE)
        self._memory = self._session_class.memory_class()
        self.model = model
        # What does the work, if it is the same for each operation.
        self._opened: ConversationSession | None = None
        self._run_ids: WeakKeyDictionary[_Context, UUID] = WeakKeyDictionary()
        self._usage = RunUsage()
        self._compactions = None if compaction is None else CompactionRuns(compaction, self._usage)

    @property
    def model(self) -> str:
        """The name of the model that answers; empty if it is unknown."""
        return self._memory.model

    @model.setter
    def model(self, name: str) -> None:
        self._memory.model = name

    async def get_items(
        self,
        limit: int | None = None,
        *,
        turn_limit: int | None = None,
        wrapper: _Context | None = None,
    ) -> list[TResponseInputItem]:
        """Return the conversation, oldest item first; redacted items in their redacted version.

        Corrupt items are skipped and logged. When a run begins, it reads them as its model's
        provider accepts them: without results whose calls are missing, and without reasoning
        whose following item is missing or that is redacted.

        Args:
            limit: The number of latest items; 0 for none, a negative number for all, None for the
                number in ``session_settings``.
            turn_limit: The number of latest turns, each a user's message and what follows it; 0,
                negative numbers and None as for ``limit``. With both, both apply.
            wrapper: The context of the run, which the Runner passes.

        Raises:
            SessionNotFoundError: The session has another owner.
        """
        latest = resolve_limit(limit, self.session_settings)
        turns = resolve_turn_limit(turn_limit, self.session_settings)
        read = self._reader(wrapper, latest, turns)
        if 0 in (latest, turns):
            return []
        items = await self._run(lambda s: s.on_conversation(partial(read, s)), wrapper)
        return items or []

    async def add_items(
        self, items: list[TResponseInputItem], *, wrapper: _Context | None = None
    ) -> None:
        """Append items: all of them or none.

        Creates no session for an empty list. Blocks cancellation until the outcome of the write is
        known.

        Args:
            items: JSON objects.
            wrapper: The context of the run, which the Runner passes. Items of the same context get
                the same ``run_id``, unless ``run_context`` sets one.

        Raises:
            SessionNotFoundError: The session has another owner, or does not exist and must not be
                created.
            PayloadError: An item is not JSON or exceeds a limit; nothing was written.
            SessionConflictError: Every retry conflicted with another writer.
            ConfigurationError: The session contains messages of another agent framework.
        """
        if not items:
            return
        batch = list(items)
        spent = self._usage.of_items(batch, wrapper)
        session = await self._find_session(wrapper)
        await session.aappend(batch, self._run_id(wrapper), spent)
        self._usage.mark_stored(wrapper, None if spent is None else spent[1])

    async def pop_item(self, *, wrapper: _Context | None = None) -> TResponseInputItem | None:
        """Remove the latest item and return it; no two callers get the same item.

        Args:
            wrapper: The context of the run, which the Runner passes.

        Returns:
            The item; None if there is none.

        Raises:
            SessionNotFoundError: The session has another owner.
            SessionConflictError: The connection was lost, so that the outcome is unknown; or every
                retry conflicted with another writer.
        """
        item: TResponseInputItem | None = await self._run(ConversationSession.pop, wrapper)
        return item

    async def clear_session(self, *, wrapper: _Context | None = None) -> None:
        """Delete all items; the session stays, with its title, metadata and owner.

        Args:
            wrapper: The context of the run, which the Runner passes.

        Raises:
            SessionNotFoundError: The session has another owner.
        """
        await self._run(ConversationSession.clear, wrapper)

    def close(self) -> Awaitable[None]:
        """Do nothing, so that code that closes a session of the SDK goes on working.

        The connection is Django's, and the object can still be used. The result may be awaited.
        """
        return _Closed()

    async def redact_item(
        self,
        position: int,
        replacement: Mapping[str, Any] | str,
        *,
        actor: Any = "redact_item",
        reason: str = "",
        wrapper: _Context | None = None,
    ) -> None:
        """Replace an item with its redacted version; the original is deleted permanently.

        ::

            await session.redact_item(-1, "[removed]")

        Args:
            position: The index of the item: 0 is the first, -1 the latest.
            replacement: The item that replaces it, or a text that replaces its content.
            actor: The user or program, for the audit trail.
            reason: The reason, for the audit trail.
            wrapper: The context of the run, for a callable owner.

        Raises:
            SessionNotFoundError: The item or the session does not exist.
            PayloadError: The replacement does not keep the item's links to other items.
        """
        make = partial(redact_openai_item, replacement=replacement)

        def redact(session: ConversationSession) -> None:
            session.redact(position, make, actor=actor, reason=reason)

        await self._run(redact, wrapper)

    @property
    def run_compaction(self) -> Callable[..., Coroutine[Any, Any, None]]:
        """Replace the conversation with a summary, in one transaction.

        ::

            await session.run_compaction({"force": True})

        The Runner calls it after each run, and then only what the model has read is replaced: with
        a limit, older items stay. Called by hand it replaces the whole conversation. It takes a
        dict with the SDK's keys (``force``, ``response_id``, ``compaction_mode``, ``store``), all
        optional, and the ``wrapper`` of a run. Under the Runner, errors are logged.

        Raises:
            AttributeError: The session was created without ``compaction``. From this, the SDK
                recognizes that the session is not compacted.
            SessionConflictError: The conversation has changed meanwhile, or a call waits for its
                result. Nothing was changed.
            StaleSessionError: Content was redacted meanwhile. Nothing was changed.
        """
        if self._compactions is None:
            raise AttributeError(
                f"session {self.session_id!r} is not compacted: create it with "
                "compaction=Compaction()"
            )
        return self._compact

    async def _compact(
        self,
        args: OpenAIResponsesCompactionArgs | None = None,
        *,
        wrapper: _Context | None = None,
    ) -> None:
        if self._compactions is None:
            return
        await self._compactions.run(
            self._run,
            {} if args is None else args,
            wrapper,
            session_id=self.session_id,
            limit=resolve_limit(None, self.session_settings),
            run_id=None if wrapper is None else self._run_id(wrapper),
        )

    async def redact_model_input(self, data: CallModelData[Any]) -> ModelInputData:
        """Mask in a model's input what was redacted since the run began.

        A run has the items that it read and wrote in memory, and sends them with each call of its
        model. Pass this method to the run::

            RunConfig(call_model_input_filter=session.redact_model_input)

        It queries the redactions before each call: one statement, if there were none.

        Args:
            data: What the Runner passes.

        Returns:
            The input for the model.
        """
        given = data.model_data
        wrapper = RunContextWrapper(context=data.context)
        items = await self._run(lambda session: session.mask(given.input), wrapper)
        return replace(given, input=items)

    def _reader(
        self, wrapper: _Context | None, latest: int | None, turns: int | None
    ) -> Callable[[ConversationSession, AgentRecord], list[Any] | None]:
        """Return a function for a database thread that reads a conversation."""
        begins = self._usage.begin(wrapper) and wrapper is not None and not wrapper.usage.requests
        # A run reads its end later, to compare that with what it has written.
        is_history = wrapper is not None and (latest is None or begins)
        return partial(self._read_items, wrapper, latest, turns, is_history)

    def _read_items(
        self,
        wrapper: _Context | None,
        latest: int | None,
        turns: int | None,
        is_history: bool,
        session: ConversationSession,
        agent: AgentRecord,
    ) -> list[Any] | None:
        with_before = is_history and latest is not None
        found = session.read_positioned(latest + 1 if with_before and latest else latest, agent)
        before = None
        if latest is not None and len(found) > latest:
            before, *found = found
        if turns is not None and (start := start_of_turns(found, turns)):
            before, found = found[start - 1], found[start:]
        if wrapper is not None and self._compactions is not None:
            self._compactions.record_read(wrapper, session, agent, found)
        if not is_history:
            return [placed.payload for placed in found] or None
        # None only if there is nothing, so that the conversation is not looked for again.
        return [*items_for_model(found, before=before).values()] if found else None

    def _run_id(self, wrapper: _Context | None) -> UUID | None:
        run_id = current_run().run_id
        if run_id is None and wrapper is not None:
            return self._run_ids.setdefault(wrapper, new_id())
        return run_id

    async def _run(
        self, operate: Callable[[ConversationSession], R], wrapper: _Context | None
    ) -> R:
        """Run an operation in a database thread, with a single thread switch."""
        session = await self._find_session(wrapper)
        return await session.arun(partial(operate, session))

    async def _find_session(self, wrapper: _Context | None) -> ConversationSession:
        if self._exclusive is not None:
            self._exclusive.check()
        session = self._opened
        ids = self.session_id, self.agent_id
        if session is None or (session.session_id, session.agent_id) != ids:
            session = self._session(await self._find_owner(wrapper), wrapper)
            if not callable(self._owner):
                self._opened = session
        return session

    async def _find_owner(self, wrapper: _Context | None) -> Any:
        owner = self._owner
        if callable(owner):
            owner = owner(wrapper)
            if isawaitable(owner):
                owner = await owner
        return owner

    def _session(self, owner: Any, wrapper: _Context | None = None) -> ConversationSession:
        if owner is None:
            # An error of the callable: None stands neither for NOBODY nor for EVERYBODY.
            without = " without a run's context" if wrapper is None else ""
            raise ConfigurationError(
                f"the owner callable of session {self.session_id!r} returned None{without}: return "
                "a user, a user's primary key, or NOBODY for sessions without an owner"
            )
        return self._session_class(
            SessionStore(
                owner=owner,
                namespace=self.namespace,
                scope=self._scope,
                using=self._using,
                create=self._create,
            ),
            self.session_id,
            dialects.OPENAI,
            title=self._title,
            metadata=self._metadata,
            runs=self._exclusive,
            memory=self._memory,
            agent_id=self.agent_id,
        )

    # --- exclusive runs ----------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Wait until no other run uses the session."""
        session = self._session(await self._find_owner(None))
        await session.exclusive().__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Release the session for the next run."""
        if self._exclusive is not None:
            await self._exclusive.aend()

    def __enter__(self) -> Self:
        """Sync twin of :meth:`__aenter__`, for use around ``Runner.run_sync``."""
        owner = self._owner
        if callable(owner):
            owner = owner(None)
            if iscoroutine(owner):
                owner.close()
                raise ConfigurationError(
                    f"the owner callable of session {self.session_id!r} is async: use `async with`"
                )
        self._session(owner).exclusive().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        """Release the session for the next run."""
        if self._exclusive is not None:
            self._exclusive.end()
