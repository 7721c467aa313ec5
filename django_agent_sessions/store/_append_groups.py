"""Append to several conversations in one commit: what waits in the same queue."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Hashable, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast
from uuid import UUID

from django.db import connections

from django_agent_sessions.db import bridge
from django_agent_sessions.db.groups import GroupedCall
from django_agent_sessions.db.loop_guard import is_guarded
from django_agent_sessions.sql import appends, grouped_appends
from django_agent_sessions.values import observing
from django_agent_sessions.values.records import (
    AgentRecord,
    Append,
    MessageRecord,
    NewMessage,
    Written,
)

from ._append import AppendWrite
from ._base import HasDatabase, tracked_atomic
from ._context import twin
from ._rows import database_values

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
R1 = TypeVar("R1")
R2 = TypeVar("R2")
S = TypeVar("S", bound=HasDatabase)

_MAX_SIZE = 2 * 1024 * 1024
"""Approximate maximum size of the messages of a group, in characters."""


class GroupedAppend(ABC, Generic[R]):
    """An append that can be committed together with others, by :func:`run`.

    The methods are called in database threads, all but :meth:`alone` in the same one.
    """

    @abstractmethod
    def make(self) -> Append | None:
        """Return what is to be appended; None, or an error, if it must be done alone."""

    @abstractmethod
    def finish(self, written: Written) -> R:
        """Take the messages after their commit, and return the result."""

    @abstractmethod
    def leave(self, unsure: bool) -> None:
        """Give up what :meth:`make` returned, before :meth:`alone`.

        ``unsure`` is whether the messages may be written all the same: they must keep their ids,
        and be appended with ``again``.
        """

    @abstractmethod
    def alone(self) -> R:
        """Append by itself, and return the result."""

    def run(
        self,
        using: str,
        key: Hashable,
        guard: Callable[[Callable[[], Any]], Any] = lambda function: function(),
    ) -> Coroutine[Any, Any, R]:
        """Append without blocking the running event loop.

        Appends with the same key stay in order. ``guard`` calls :meth:`make` and :meth:`alone`.
        """
        call: GroupedCall[AppendWrite, AppendWrite, R] = GroupedCall(
            using,
            key,
            prepare=functools.partial(self._prepare, using, guard),
            write=write_appends,
            finish=self._finish,
            leave=self.leave,
            alone=functools.partial(guard, self.alone),
        )
        return bridge.run_async(call.alone, using=using, call=call)

    def _prepare(self, using: str, guard: Callable[[Callable[[], Any]], Any]) -> AppendWrite | None:
        # Not on MariaDB and MySQL, where inserts into neighboring gaps of an index may deadlock.
        if connections[using].vendor not in ("sqlite", "postgresql"):
            return None
        append = guard(self.make)
        if append is None:
            return None
        fits = False
        try:
            write = AppendWrite(using, append)
            fits = write.fits_group and not append.again
        finally:
            if not fits:
                self.leave(False)
        return write if fits else None

    def _finish(self, write: AppendWrite) -> R:
        write.tell()
        if (observer := observing.current) is not None:
            observer.append_ended(observing.agent_ids(write.agent), write.now)
        return self.finish(write.records())


def write_appends(using: str, writes: Sequence[AppendWrite]) -> list[AppendWrite | None]:
    """Write appends in one transaction; None for each that was left out."""
    sessions: set[UUID] = set()
    size = 0
    written: list[AppendWrite | None] = []
    for write in writes:
        size += sum(row.size for row in write.new)
        # The positions in a conversation, and a session's counters, depend on each other.
        fits = write.agent.session not in sessions and (not sessions or size <= _MAX_SIZE)
        written.append(write if fits else None)
        sessions.add(write.agent.session)
    fitting = [write for write in written if write is not None]
    if connections[using].vendor == "postgresql":
        _write_statement(using, fitting)
    else:
        _write_transaction(using, fitting)
    return [write if write is not None and write.first is not None else None for write in written]


def _write_statement(using: str, writes: Sequence[AppendWrite]) -> None:
    connection = connections[using]
    positions = grouped_appends.append_group(
        using,
        [
            grouped_appends.GroupedRows(
                write.agent.id,
                write.agent.branch,
                write.agent.session,
                database_values(write.new, write.agent.session, connection, write.now),
                write.expected,
                write.append.epoch,
                write.counting,
            )
            for write in writes
        ],
    )
    for write in writes:
        write.first = positions.get(write.agent.id)


def _write_transaction(using: str, writes: Sequence[AppendWrite]) -> None:
    connection = connections[using]
    with tracked_atomic(using):
        firsts = [
            appends.append(
                using,
                write.agent.id,
                database_values(write.new, write.agent.session, connection, write.now),
                branch=write.agent.branch,
                expected=write.expected,
                epoch=write.append.epoch,
                counting=write.counting,
            )
            for write in writes
        ]
    for write, first in zip(writes, firsts, strict=True):
        write.first = first


def append_twins(
    append: Callable[Concatenate[S, P], R1], append_many: Callable[Concatenate[S, Q], R2]
) -> tuple[
    Callable[Concatenate[S, P], Coroutine[Any, Any, R1]],
    Callable[Concatenate[S, Q], Coroutine[Any, Any, R2]],
]:
    """Return the async twins of a store's two methods; their calls may run in a group."""

    def can_group(store: Any, options: dict[str, Any]) -> bool:
        # Only these methods: those of a subclass are called instead.
        cls = type(store)
        same = is_guarded(cls.append, append) and is_guarded(cls.append_many, append_many)
        return same and not options.get("again")

    async def run(store: Any, agent: AgentRecord, message: Any, **options: Any) -> MessageRecord:
        if not can_group(store, options):
            return cast(MessageRecord, await plain(store, agent, message, **options))
        return (await _run(store, agent, [message], options))[0]

    async def run_many(
        store: Any, agent: AgentRecord, messages: Sequence[Any], **options: Any
    ) -> Written:
        if not can_group(store, options):
            return cast(Written, await plain_many(store, agent, messages, **options))
        return await _run(store, agent, messages, options)

    plain: Any = twin(append)
    plain_many: Any = twin(append_many)
    twin_of_append: Any = functools.update_wrapper(run, plain)
    twin_of_many: Any = functools.update_wrapper(run_many, plain_many)
    return twin_of_append, twin_of_many


async def _run(
    store: Any, agent: AgentRecord, messages: Sequence[Any], options: dict[str, Any]
) -> Written:
    append = _StoreAppend(store, agent, messages, options)
    return await append.run(store.using, getattr(agent, "id", None))


class _StoreAppend(GroupedAppend[Written]):
    def __init__(
        self, store: Any, agent: AgentRecord, messages: Sequence[Any], options: dict[str, Any]
    ) -> None:
        self._store, self._agent, self._options = store, agent, options
        self._messages = messages

    def make(self) -> Append:
        self._messages = with_ids(self._messages)
        return Append(self._agent, self._messages, **self._options)

    def finish(self, written: Written) -> Written:
        return written

    def leave(self, unsure: bool) -> None:
        if unsure:
            self._options["again"] = True

    def alone(self) -> Written:
        written: Written = self._store.append_many(self._agent, self._messages, **self._options)
        return written


def with_ids(messages: Sequence[Any]) -> list[NewMessage]:
    """Return messages that keep their ids if they have to be written again."""
    return [
        message if isinstance(message, NewMessage) else NewMessage(message) for message in messages
    ]
