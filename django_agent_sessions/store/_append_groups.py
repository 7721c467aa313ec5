"""Append to several conversations in one commit: what waits in the same queue, and batches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Hashable, Sequence
from operator import itemgetter
from typing import Any, Concatenate, NoReturn, ParamSpec, Self, TypeVar, cast
from uuid import UUID

from django.db import Error, connections

from django_agent_sessions.db import bridge
from django_agent_sessions.db.db_errors import RetryError
from django_agent_sessions.db.groups import GroupedCall
from django_agent_sessions.db.loop_guard import is_guarded
from django_agent_sessions.db.retries import HasDatabase, tracked_atomic
from django_agent_sessions.exceptions import AgentSessionsError
from django_agent_sessions.sql import appends, grouped_appends
from django_agent_sessions.values import observing
from django_agent_sessions.values.records import AgentRecord, Append, MessageRecord, Written

from ._append import AppendSteps, AppendWrite, append_messages, carry_out
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


# --- what waits in the same queue ------------------------------------------------------------


async def arun_steps(using: str, order: Hashable, steps: AppendSteps[R]) -> R:
    """Carry out the steps of an append without blocking the running event loop.

    Appends with the same ``order`` are never committed together.
    """
    call = _AppendCall(using, order, steps)
    return await bridge.run_async(call.run, using=using, call=call)


class _AppendCall(GroupedCall[R]):
    """The steps of an append, of which the first can be written together with others."""

    _write: AppendWrite

    def __init__(self, using: str, order: Hashable, steps: AppendSteps[R]) -> None:
        super().__init__(using, order)
        self._steps = steps
        # Returns what the steps wait for, or raises. It is left behind by `run`, because an error
        # refers to the frame of `prepare`, and that to this object.
        self._answer: Callable[[], Written] | None = None

    def run(self) -> R:
        answer, self._answer = self._answer, None
        return carry_out(self.using, self._steps, answer)

    def prepare(self) -> bool:
        # Not on MariaDB and MySQL, where inserts into neighboring gaps of an index may deadlock.
        if connections[self.using].vendor not in ("sqlite", "postgresql"):
            return False
        try:
            append = next(self._steps)
            if append is None:
                return False
            if append.again:
                self._answer = functools.partial(append_messages, self.using, append)
                return False
            self._write = AppendWrite(self.using, append)
        except BaseException as error:
            # Also the end of the steps.
            self._answer = functools.partial(_raise, error)
            return False
        self._answer = functools.partial(append_messages, self.using, append, self._write)
        return self._write.is_one_statement

    @classmethod
    def write_together(cls, using: str, calls: Sequence[Self]) -> list[bool]:
        sessions: set[UUID] = set()
        size = 0
        fitting: list[AppendWrite] = []
        for write in (call._write for call in calls):
            size += sum(row.size for row in write.new)
            # The positions in a conversation, and a session's counters, depend on each other.
            if write.agent.session not in sessions and (not sessions or size <= _MAX_SIZE):
                fitting.append(write)
            sessions.add(write.agent.session)
        # Should the answer be lost, each looks for its rows before it is written by itself.
        for write in fitting:
            write.tried = True
        if connections[using].vendor == "postgresql":
            _write_statement(using, fitting)
        else:
            _write_transaction(using, fitting)
        for write in fitting:
            write.tried = write.first is not None
        for call in calls:
            if call._write.tried:
                call._answer = functools.partial(_finish, call._write)
        return [call._write.tried for call in calls]


def _raise(error: BaseException) -> NoReturn:
    raise error


def _finish(write: AppendWrite) -> Written:
    written = write.finish()
    if (observer := observing.current) is not None:
        observer.append_ended(observing.agent_ids(write.agent), write.now)
    return written


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

    def can_group(store: Any) -> bool:
        # Only these methods: those of a subclass are called instead.
        cls = type(store)
        return is_guarded(cls.append, append) and is_guarded(cls.append_many, append_many)

    async def run(store: Any, agent: AgentRecord, message: Any, **options: Any) -> MessageRecord:
        if not can_group(store):
            return cast(MessageRecord, await plain(store, agent, message, **options))
        return (await _append(store.using, agent, [message], options))[0]

    async def run_many(
        store: Any, agent: AgentRecord, messages: Sequence[Any], **options: Any
    ) -> Written:
        if not can_group(store):
            return cast(Written, await plain_many(store, agent, messages, **options))
        return await _append(store.using, agent, messages, options)

    plain: Any = twin(append)
    plain_many: Any = twin(append_many)
    twin_of_append: Any = functools.update_wrapper(run, plain)
    twin_of_many: Any = functools.update_wrapper(run_many, plain_many)
    return twin_of_append, twin_of_many


async def _append(
    using: str, agent: AgentRecord, messages: Sequence[Any], options: dict[str, Any]
) -> Written:
    def steps() -> AppendSteps[Written]:
        return (yield Append(agent, messages, **options))

    return await arun_steps(using, getattr(agent, "id", None), steps())


# --- batches ---------------------------------------------------------------------------------


def write_batch(using: str, appends: Sequence[Append]) -> list[Written | Exception]:
    """Write appends in one transaction. See :meth:`SessionStore.write_batch`."""
    results: list[Written | Exception] = [[] for _ in appends]
    prepared: dict[int, AppendWrite] = {}
    for index, append in enumerate(appends):
        if append.messages:
            try:
                prepared[index] = AppendWrite(using, append)
            except Exception as error:
                results[index] = error
    grouped = _write_group(using, prepared) if len(prepared) > 1 else set()
    for index, one in prepared.items():
        try:
            if index not in grouped:
                one.write(savepoint=len(prepared) > 1)
        except Exception as error:
            results[index] = error
        else:
            results[index] = one.finish()
    return results


def _write_group(using: str, prepared: dict[int, AppendWrite]) -> set[int]:
    """Write the small appends in one transaction; return which were written.

    If one fails, nothing of the group is written: each is then written by itself, so that the
    errors of one are not those of another.
    """
    # An agent's appends stay in their order, so they are all in the group, or none is.
    others = {one.agent.id for one in prepared.values() if not one.is_one_statement}
    group = [(index, one) for index, one in prepared.items() if one.agent.id not in others]
    # In the order of their sessions, so that two groups do not lock each other out.
    group.sort(key=lambda item: (item[1].agent.session, item[1].agent.id))
    try:
        with tracked_atomic(using):
            for _, one in group:
                one.insert()
    except (AgentSessionsError, RetryError, Error):
        return set()
    return set(map(itemgetter(0), group))
