"""The session for the SDK's Runner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import isawaitable
from typing import Any, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

from agents import RunContextWrapper, TResponseInputItem
from agents.memory.session_settings import (
    SessionSettings,
    coerce_session_settings,
    resolve_session_limit,
)

from django_agent_sessions.content import dialects, exact_json
from django_agent_sessions.db import bridge
from django_agent_sessions.exceptions import (
    ConfigurationError,
    SessionNotFoundError,
    StaleSessionError,
)
from django_agent_sessions.store import DEFAULT_AGENT, SessionStore
from django_agent_sessions.values.ids import new_id, validate_id, validate_namespace
from django_agent_sessions.values.owners import NOBODY, refuse_none
from django_agent_sessions.values.records import AgentRecord, PositionedPayload, SessionRecord

from .exclusive import ExclusiveLeases, ExclusiveSession
from .item_cache import ItemCache
from .item_redaction import item_at, redact_openai_item
from .orphaned_results import without_orphaned_results

R = TypeVar("R")

MAX_RELOADS = 10
"""Maximum number of times that a write reloads redactions that were made meanwhile."""

_Context = RunContextWrapper[Any]


class DjangoSession(ExclusiveSession):
    """A conversation in the project's database, for ``Runner.run(…, session=…)``.

    It is a ``Session`` of the SDK. The constructor runs no query, so it can be called anywhere; the
    first item creates the rows. An object may be used by several tasks at once.

    Args:
        session_id: The id of the session, unique in its namespace for all owners.
        owner: Whose session it is: a user, that user's primary key, or a callable that returns
            one of them. It is called in the event loop at each use with the ``RunContextWrapper``
            of the run, or None where there is no run; it may be async, and must be to ask the
            database. Left out, only sessions without an owner are reached and created;
            ``EVERYBODY`` reaches all sessions.
        namespace: The namespace of session ids.
        session_settings: The default number of items to read; a dict with the same keys is allowed.
        title: The title of a new session.
        metadata: The metadata of a new session, as JSON.
        using: The alias of the database. The default is the configured database, or the routers'
            answer now; with a callable owner, at each use.
        create: Whether the first item creates the session. The default is True, except with
            ``owner=EVERYBODY``. False for sessions that are created elsewhere, so that a deleted
            session is not created again.
        exclusive: Whether only one run uses the session at a time, in any process. It must then be
            used in a block, ``async with session:``, or ``with session:`` around
            ``Runner.run_sync``, which waits for the lease and creates the session.
        wait: Seconds that the block waits for the lease; by default ``LEASE_WAIT_SECONDS``.

    Attributes:
        session_id: The id of the session.
        session_settings: The given settings, or ``SessionSettings()``; can be assigned.

    Raises:
        InvalidIdError: The session id or the namespace is invalid.
        ConfigurationError: The owner is None. One who cannot own sessions, such as an anonymous
            user, is refused at the first use.
    """

    session_id: str
    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        *,
        owner: Any | Callable[[_Context | None], Any] = NOBODY,
        namespace: str = "",
        session_settings: SessionSettings | dict[str, Any] | None = None,
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
        using: str | None = None,
        create: bool | None = None,
        exclusive: bool = False,
        wait: float | None = None,
    ) -> None:
        self.session_id = validate_id(session_id)
        self.session_settings = coerce_session_settings(
            SessionSettings() if session_settings is None else session_settings
        )
        refuse_none(owner)
        self._owner = owner
        self._namespace = validate_namespace(namespace)
        self._title = title
        self._metadata = metadata
        # Resolved now: a stream outlives its request, and a router that depends on the request
        # would then return another tenant's database. With a callable owner there may be no
        # request yet.
        self._using = using if callable(owner) else bridge.database(using)
        self._create = create
        self._turns = ExclusiveLeases(self.session_id, wait) if exclusive else None
        # Session id, owner and agent of the last operation.
        self._cached_agent: tuple[str, Any, AgentRecord] | None = None
        self._memory = ItemCache()
        self._runs: WeakKeyDictionary[_Context, UUID] = WeakKeyDictionary()

    async def get_items(
        self, limit: int | None = None, *, wrapper: _Context | None = None
    ) -> list[TResponseInputItem]:
        """Return the conversation, oldest item first; redacted items in their redacted version.

        Corrupt items are skipped and logged. If a run reads the whole conversation, results of
        tools whose calls have been deleted are left out.

        Args:
            limit: The number of latest items; 0 or less for none, None for the number in
                ``session_settings``.
            wrapper: The context of the run, which the Runner passes.

        Raises:
            SessionNotFoundError: The session has another owner.
        """
        latest = resolve_session_limit(limit, self.session_settings)
        if latest is not None and latest <= 0:
            return []
        items = await self._run(partial(self._read, latest), wrapper) or []
        return self._without_orphans(items, latest, wrapper)

    async def add_items(
        self, items: list[TResponseInputItem], *, wrapper: _Context | None = None
    ) -> None:
        """Append items: all of them or none.

        Creates no session for an empty list. Blocks cancellation until the outcome of the write is
        known.

        Args:
            items: JSON objects.
            wrapper: The context of the run, which the Runner passes. Items of the same context get
                the same ``run_id``.

        Raises:
            SessionNotFoundError: The session has another owner, or does not exist and must not be
                created.
            PayloadError: An item is not JSON or exceeds a limit; nothing was written.
            SessionConflictError: Every retry conflicted with another writer.
            ConfigurationError: The session contains messages of another agent framework.
        """
        if not items:
            return
        run_id = None if wrapper is None else self._runs.setdefault(wrapper, new_id())
        await self._run(partial(self._append, list(items), run_id), wrapper)

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
        item: TResponseInputItem | None = await self._run(self._pop, wrapper)
        return item

    async def clear_session(self, *, wrapper: _Context | None = None) -> None:
        """Delete all items; the session stays, with its title, metadata and owner.

        Args:
            wrapper: The context of the run, which the Runner passes.

        Raises:
            SessionNotFoundError: The session has another owner.
        """
        await self._run(self._clear, wrapper)

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
        await self._run(partial(self._redact, position, replacement, actor, reason), wrapper)

    def _without_orphans(
        self, items: list[TResponseInputItem], latest: int | None, wrapper: _Context | None
    ) -> list[TResponseInputItem]:
        # With a limit, the Runner does it itself, or compares what it reads with what it wrote.
        return without_orphaned_results(items) if wrapper is not None and latest is None else items

    async def _run(self, work: Callable[[SessionStore], R], wrapper: _Context | None) -> R:
        """Run an operation in a database thread, with a single thread switch."""
        if self._turns is not None:
            self._turns.check()
        store = await self._find_store(wrapper)
        do: Callable[[], R] = partial(work, store)
        return await bridge.run_async(
            do if self._turns is None else self._turns.guarded(do), using=store.using
        )

    async def _find_store(self, wrapper: _Context | None) -> SessionStore:
        owner = self._owner
        if callable(owner):
            owner = owner(wrapper)
            if isawaitable(owner):
                owner = await owner
        return self._store(owner, wrapper)

    def _store(self, owner: Any, wrapper: _Context | None) -> SessionStore:
        if owner is None:
            # An error of the callable: None stands neither for NOBODY nor for EVERYBODY.
            without = " without a run's context" if wrapper is None else ""
            raise ConfigurationError(
                f"the owner callable of session {self.session_id!r} returned None{without}: return "
                "a user, a user's primary key, or NOBODY for sessions without an owner"
            )
        return SessionStore(
            owner=owner, namespace=self._namespace, using=self._using, create=self._create
        )

    # --- what runs in the database's thread --------------------------------------------------

    def _read(self, latest: int | None, store: SessionStore) -> list[TResponseInputItem] | None:
        return self._run_if_exists(store, partial(self._read_from, latest, store))

    def _read_from(
        self, latest: int | None, store: SessionStore, agent: AgentRecord
    ) -> list[TResponseInputItem] | None:
        payloads_read = store.messages.positioned(agent, latest=latest)
        self._memory.record_read(payloads_read, branch=agent.branch)
        return [placed.payload for placed in payloads_read] or None

    def _pop(self, store: SessionStore) -> Any:
        def pop(agent: AgentRecord) -> Any:
            taken = store.messages.pop(agent)
            self._memory.record_popped(taken)
            return None if taken is None else taken.payload

        return self._run_if_exists(store, pop)

    def _clear(self, store: SessionStore) -> None:
        def clear(agent: AgentRecord) -> int | None:
            # Redactions must be read before the deletion: a compaction writes items back.
            deleted = self._at_epoch(
                store, agent, lambda: store.clear(agent, epoch=self._memory.epoch)
            )
            return deleted or None

        self._run_if_exists(store, clear)

    def _append(
        self, items: Sequence[TResponseInputItem], run_id: UUID | None, store: SessionStore
    ) -> None:
        self._write(partial(self._append_to, items, run_id, store), items, store)

    def _write(
        self,
        append_to: Callable[[AgentRecord], None],
        items: Sequence[TResponseInputItem],
        store: SessionStore,
    ) -> None:
        """Append items to the conversation, which is created if it does not exist."""
        known = self._recall(store)
        if known is not None:
            try:
                append_to(known)
            except SessionNotFoundError:
                # It was deleted, or created in a transaction that was rolled back: open it again.
                self._cached_agent = None
            else:
                return
        for item in items:
            exact_json.dumps(item)  # Raises before a session is created for an invalid item.
        session = self._open(store)
        agent = store.agents.open(session, dialect=dialects.OPENAI)
        self._remember(store, agent, session.redaction_epoch)
        append_to(agent)

    def _open(self, store: SessionStore) -> SessionRecord:
        return store.open(self.session_id, title=self._title, metadata=self._metadata)

    def _append_to(
        self,
        items: Sequence[TResponseInputItem],
        run_id: UUID | None,
        store: SessionStore,
        agent: AgentRecord,
    ) -> None:
        def append() -> None:
            clean = [self._memory.clean(item) for item in items]
            written = store.append_many(agent, clean, run_id=run_id, epoch=self._memory.epoch)
            self._memory.record_written((record.message_id, record.message) for record in written)

        self._at_epoch(store, agent, append)

    def _at_epoch(self, store: SessionStore, agent: AgentRecord, write: Callable[[], R]) -> R:
        """Write, and reload redactions and retry if there were any since the last read."""
        for _ in range(MAX_RELOADS):
            try:
                return write()
            except StaleSessionError:
                self._catch_up(store, agent)
        return write()

    def _catch_up(self, store: SessionStore, agent: AgentRecord) -> None:
        epoch = store.get(self.session_id).redaction_epoch
        aside = [
            PositionedPayload(record.message_id, record.content, True)
            for record in store.messages.redacted_elsewhere(agent)
        ]
        found = store.messages.positioned(agent)
        self._memory.record_moved(aside, found, branch=agent.branch)
        self._memory.record_read(found, branch=agent.branch)
        self._memory.epoch = epoch

    def _redact(
        self,
        position: int,
        replacement: Mapping[str, Any] | str,
        actor: Any,
        reason: str,
        store: SessionStore,
    ) -> None:
        agent = self._find(store)
        record = None if agent is None else item_at(position, agent, store)
        if agent is None or record is None:
            raise SessionNotFoundError(f"session {self.session_id!r} has no item {position}")
        item = redact_openai_item(record, replacement)
        store.messages.redact(agent, record.message_id, item, actor=actor, reason=reason)

    def _run_if_exists(
        self, store: SessionStore, operate: Callable[[AgentRecord], R | None]
    ) -> R | None:
        """Run an operation on the conversation; None if there is no conversation or result."""
        known = self._recall(store)
        if known is not None and (outcome := operate(known)) is not None:
            return outcome
        # Empty, or deleted meanwhile and perhaps created again by another process.
        found = self._find(store)
        if found is None or (known is not None and found.id == known.id):
            return None
        return operate(found)

    def _find(self, store: SessionStore) -> AgentRecord | None:
        # Raises if the session has another owner.
        found = store.sessions.find_with_agent(self.session_id, DEFAULT_AGENT)
        if found is None:
            self._cached_agent = None
            return None
        session, agent = found
        return self._remember(store, agent, session.redaction_epoch)

    def _recall(self, store: SessionStore) -> AgentRecord | None:
        known = self._cached_agent
        if known is None or known[:2] != (self.session_id, store.reach):
            return None
        return known[2]

    def _remember(self, store: SessionStore, agent: AgentRecord, epoch: int) -> AgentRecord:
        if agent.dialect != dialects.OPENAI:
            raise ConfigurationError(
                f"session {self.session_id!r} contains messages of {agent.dialect!r} agents: use "
                "another session_id or namespace"
            )
        if self._cached_agent is None or self._cached_agent[2].id != agent.id:
            # A new conversation. For the same one keep the older epoch, which is the safe choice.
            self._memory = ItemCache(epoch)
        self._cached_agent = (self.session_id, store.reach, agent)
        return agent
