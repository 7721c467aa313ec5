"""The session that the SDK's Runner is given."""

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

from django_agent_sessions import bridge, payloads, transcripts
from django_agent_sessions.exceptions import (
    ConfigurationError,
    SessionNotFoundError,
    StaleSessionError,
)
from django_agent_sessions.ids import new_id, validate_id, validate_namespace
from django_agent_sessions.owners import NOBODY, refuse_none
from django_agent_sessions.records import AgentRecord, PlacedPayload, SessionRecord
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.agents import DEFAULT_AGENT

from .exclusive import TakesTurns, Turns
from .memory import Memory
from .rewording import item_at, redacted
from .strays import without_strays

R = TypeVar("R")

MOST_REDACTIONS = 10
"""How often a write finds out what was redacted while it was under way."""

_Context = RunContextWrapper[Any]


class DjangoSession(TakesTurns):
    """A conversation in the project's database, for ``Runner.run(…, session=…)``.

    It is a ``Session`` of the SDK. Making one does no database work, so it may be made anywhere;
    the rows are made by the first item. One object may serve several tasks at once.

    Args:
        session_id: The name of the session, unique in its namespace for all owners.
        owner: Whose session it is: a user, that user's primary key, or a callable that returns
            one of them. It is called in the event loop at each use with the ``RunContextWrapper``
            of the run, or None where there is no run; it may be async, and must be to ask the
            database. Left out, sessions without an owner are reached, and made; ``EVERYBODY``
            reaches every session.
        namespace: The space of session ids.
        session_settings: How many items are read by default; a dict with the same names will do.
        title: A title for a session that is made.
        metadata: JSON for a session that is made.
        using: The alias of the database, if it is not the one that is configured, or that the
            routers answer now; with a callable owner, at each use.
        create: Whether the first item makes the session. By default it does, unless the owner is
            ``EVERYBODY``, with which it takes True. Where it is made elsewhere, such as for a chat,
            False keeps an agent from making it anew after it was deleted.
        exclusive: Whether only one run uses the session at a time, in whatever process. It is then
            used within a block, ``async with session:``, or ``with session:`` around
            ``Runner.run_sync``, which waits for its turn and makes the session.
        wait: How many seconds the block waits; ``LEASE_WAIT_SECONDS``, if not given.

    Attributes:
        session_id: The name of the session.
        session_settings: As given, or ``SessionSettings()``; it may be set.

    Raises:
        InvalidIdError: The session id or the namespace cannot be one.
        ConfigurationError: The owner is None. One who cannot own sessions, such as an anonymous
            user, is refused at the first use.
    """

    session_id: str
    session_settings: SessionSettings | None
    _store_class: type[SessionStore] = SessionStore

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
        # What streams goes on after its request: a router that asks whose it is would then answer
        # for somebody else. Who makes sessions before there are users has no request yet.
        self._using = using if callable(owner) else bridge.database(using)
        self._create = create
        self._turns = Turns(self.session_id, wait) if exclusive else None
        # Where the items of which session and owner are, as far as this object knows.
        self._known: tuple[str, Any, AgentRecord] | None = None
        self._memory = Memory()
        self._runs: WeakKeyDictionary[_Context, UUID] = WeakKeyDictionary()

    async def get_items(
        self, limit: int | None = None, *, wrapper: _Context | None = None
    ) -> list[TResponseInputItem]:
        """Reads the conversation.

        Args:
            limit: Only that many of the latest items, 0 or less none; None reads as many as
                ``session_settings`` say.
            wrapper: The context of the run, which the Runner gives.

        Returns:
            The items, the oldest first, redacted where they were redacted; none if there is no
            such session. A corrupt item is left out and reported in the log. A run that reads all
            is not given the results of tools whose calls are gone.

        Raises:
            SessionNotFoundError: The session is somebody else's.
        """
        latest = resolve_session_limit(limit, self.session_settings)
        if latest is not None and latest <= 0:
            return []
        found = await self._run(partial(self._read, latest), wrapper) or []
        return self._given(found, latest, wrapper)

    async def add_items(
        self, items: list[TResponseInputItem], *, wrapper: _Context | None = None
    ) -> None:
        """Writes items behind the last one: all of them or none.

        No items make no session. A cancellation waits until it is known whether they were
        written.

        Args:
            items: Any JSON objects.
            wrapper: The context of the run, which the Runner gives. What is written with the
                same one gets the same ``run_id``.

        Raises:
            SessionNotFoundError: The session is somebody else's; or there is none, and it is not to
                be made.
            PayloadError: An item is not JSON or over a limit; nothing was written.
            SessionConflictError: Other writers were faster each time.
            ConfigurationError: The session holds messages of another agent framework.
        """
        if not items:
            return
        run_id = None if wrapper is None else self._runs.setdefault(wrapper, new_id())
        await self._run(partial(self._append, list(items), run_id), wrapper)

    async def pop_item(self, *, wrapper: _Context | None = None) -> TResponseInputItem | None:
        """Takes the latest item away; no two callers get the same one.

        Args:
            wrapper: The context of the run, which the Runner gives.

        Returns:
            The item; None if there is none.

        Raises:
            SessionNotFoundError: The session is somebody else's.
            SessionConflictError: The connection was lost, so that it is not known whether an
                item was taken; or others were faster each time.
        """
        item: TResponseInputItem | None = await self._run(self._pop, wrapper)
        return item

    async def clear_session(self, *, wrapper: _Context | None = None) -> None:
        """Deletes all items; the session stays, with its title, metadata and owner.

        Args:
            wrapper: The context of the run, which the Runner gives.

        Raises:
            SessionNotFoundError: The session is somebody else's.
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
        """Overwrites an item by its redacted version; the original is gone for good.

        ::

            await session.redact_item(-1, "[removed]")

        Args:
            position: Which one: 0 is the first of the conversation, -1 the latest.
            replacement: What to keep in its place. Either an item that answers and is answered by
                the same ones: its type, role and call id are the original's. Or a text, which
                replaces all that a message or a function's output says.
            actor: Who redacts, for the audit trail: a user, or text for a program.
            reason: Why, for the audit trail.
            wrapper: The context of a run, for an owner that is found by it.

        Raises:
            SessionNotFoundError: There is no such session or item, or it is somebody else's.
            PayloadError: The replacement does not fit the item, is not JSON or over a limit.
        """
        await self._run(partial(self._redact, position, replacement, actor, reason), wrapper)

    def _given(
        self, found: list[TResponseInputItem], latest: int | None, wrapper: _Context | None
    ) -> list[TResponseInputItem]:
        # With a limit the Runner does it by itself, or compares what it reads with what it wrote.
        return without_strays(found) if wrapper is not None and latest is None else found

    async def _run(self, work: Callable[[SessionStore], R], wrapper: _Context | None) -> R:
        """Does all of an operation in one trip to the database's thread."""
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
            # A callable that names owners and finds none means neither NOBODY nor EVERYBODY.
            without = " without a run's context" if wrapper is None else ""
            raise ConfigurationError(
                f"the owner callable of session {self.session_id!r} returned None{without}: return "
                "a user, a user's primary key, or NOBODY for sessions without an owner"
            )
        return self._store_class(
            owner=owner, namespace=self._namespace, using=self._using, create=self._create
        )

    # --- what runs in the database's thread --------------------------------------------------

    def _read(self, latest: int | None, store: SessionStore) -> list[TResponseInputItem] | None:
        return self._try(store, partial(self._read_from, latest, store))

    def _read_from(
        self, latest: int | None, store: SessionStore, agent: AgentRecord
    ) -> list[TResponseInputItem] | None:
        found = store.placed_payloads(agent, latest=latest)
        self._memory.has_read(found, branch=agent.branch)
        return [placed.payload for placed in found] or None

    def _pop(self, store: SessionStore) -> Any:
        def pop(agent: AgentRecord) -> Any:
            taken = store.pop_placed(agent)
            self._memory.has_popped(taken)
            return None if taken is None else taken.payload

        return self._try(store, pop)

    def _clear(self, store: SessionStore) -> None:
        def clear(agent: AgentRecord) -> int | None:
            # What was redacted has to be known before it is gone: a compaction puts items back.
            deleted = self._at_epoch(
                store, agent, lambda: store.clear(agent, epoch=self._memory.epoch)
            )
            return deleted or None

        self._try(store, clear)

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
        """Appends items to the conversation, which is made if there is none."""
        known = self._recall(store)
        if known is not None:
            try:
                append_to(known)
            except SessionNotFoundError:
                # It was deleted, or made in a transaction that was rolled back: begin anew.
                self._known = None
            else:
                return
        for item in items:
            payloads.dumps(item)  # Refused before a session is made for it.
        session = self._open(store)
        agent = store.open_agent(session, dialect=transcripts.OPENAI)
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
            self._memory.has_written((record.message_id, record.message) for record in written)

        self._at_epoch(store, agent, append)

    def _at_epoch(self, store: SessionStore, agent: AgentRecord, write: Callable[[], R]) -> R:
        """Writes, and whenever somebody redacted meanwhile, first finds out what."""
        for _ in range(MOST_REDACTIONS):
            try:
                return write()
            except StaleSessionError:
                self._catch_up(store, agent)
        return write()

    def _catch_up(self, store: SessionStore, agent: AgentRecord) -> None:
        epoch = store.get(self.session_id).redaction_epoch
        aside = [
            PlacedPayload(record.message_id, record.content, True)
            for record in store.redacted_aside(agent)
        ]
        found = store.placed_payloads(agent)
        self._memory.has_missed(aside, found, branch=agent.branch)
        self._memory.has_read(found, branch=agent.branch)
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
        found = None if agent is None else item_at(position, agent, store)
        if agent is None or found is None:
            raise SessionNotFoundError(f"session {self.session_id!r} has no item {position}")
        item = redacted(found, replacement)
        store.redact_message(agent, found.message_id, item, actor=actor, reason=reason)

    def _try(self, store: SessionStore, operate: Callable[[AgentRecord], R | None]) -> R | None:
        """Works on the conversation, if there is one.

        Args:
            store: The owner's store.
            operate: Returns None if it found nothing to work on.
        """
        known = self._recall(store)
        if known is not None and (outcome := operate(known)) is not None:
            return outcome
        # Empty, or deleted meanwhile and perhaps begun anew by somebody else.
        found = self._find(store)
        if found is None or (known is not None and found.id == known.id):
            return None
        return operate(found)

    def _find(self, store: SessionStore) -> AgentRecord | None:
        # Raises if the session is somebody else's.
        found = store.find_agent(self.session_id, DEFAULT_AGENT)
        if found is None:
            self._known = None
            return None
        session, agent = found
        return self._remember(store, agent, session.redaction_epoch)

    def _recall(self, store: SessionStore) -> AgentRecord | None:
        known = self._known
        if known is None or known[:2] != (self.session_id, store.reach):
            return None
        return known[2]

    def _remember(self, store: SessionStore, agent: AgentRecord, epoch: int) -> AgentRecord:
        if agent.dialect != transcripts.OPENAI:
            raise ConfigurationError(
                f"session {self.session_id!r} holds messages of {agent.dialect!r} agents: give "
                "this one another id or namespace"
            )
        if self._known is None or self._known[2].id != agent.id:
            # Another conversation; of the one it knows, the older epoch is the safe one.
            self._memory = Memory(epoch)
        self._known = (self.session_id, store.reach, agent)
        return agent
