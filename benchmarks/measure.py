"""The measurement: each store in turn, round after round, so that all meet the same machine."""

from __future__ import annotations

import asyncio
import gc
import itertools
import statistics
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from .databases import settle, table_size
from .messages import Message
from .stores import Conversation, Store

BATCH = 100
"""Messages of an append in one call."""

LATEST = 20
"""Messages of a read of the latest."""


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Attributes:
        some: Messages of a conversation of middling length.
        many: Messages of a long one.
        rounds: How often every store has its turn.
        appends: Single appends in a turn.
        concurrent: Conversations that are written to at the same time.
        each: Messages that each of them gets in a turn.
    """

    some: int = 1_000
    many: int = 10_000
    rounds: int = 5
    appends: int = 40
    concurrent: int = 50
    each: int = 10


QUICK = Plan(some=50, many=200, rounds=1, appends=5, concurrent=5, each=2)
"""A smoke test: the figures mean nothing."""


@dataclass
class Figures:
    """What one store was measured to need.

    Attributes:
        seconds: The median seconds of each operation; those it cannot do are missing.
        rate: Messages per second of the concurrent conversations.
        size: Bytes of table and indexes per message, on PostgreSQL.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    rate: float | None = None
    size: float | None = None


Operation = Callable[[], Awaitable[object]]


class Operations:
    """The timed operations of one store, on conversations that are filled beforehand.

    Args:
        store: A store that was started.
        plan: How much is measured.
    """

    def __init__(self, store: Store, plan: Plan) -> None:
        self._store = store
        self._plan = plan
        self._numbers = itertools.count()
        self._kept: dict[str, Conversation] = {}

    async def fill(self) -> float | None:
        """Writes the conversations that are appended to and read.

        Returns:
            Bytes per message of the longest, where that can be told.
        """
        plan = self._plan
        # The first one warms everything up that is done once.
        for name, count in {"warm": 10, "few": 10}.items():
            await self._keep(name, count)
        before = self._size()
        await self._keep("many", plan.many)
        after = self._size()
        await self._keep("some", plan.some)
        await self._keep("append some", plan.some)
        await self._keep("append many", plan.many)
        await self._keep("batches", 10)
        for number in range(self._plan.concurrent):
            self._kept[f"{number}"] = await self._store.concurrent(f"concurrent-{number}")
        return None if before is None or after is None else (after - before) / plan.many

    def names(self) -> dict[str, int]:
        """The operations, with how often each runs in a turn."""
        appends = self._plan.appends
        few = max(1, appends // 8)
        return {
            "append 0": few,
            "append some": appends,
            "append many": appends,
            "batch": few,
            "restore 10": few,
            "restore some": few,
            "restore many": 1,
            "latest": few,
        }

    async def prepare(self, name: str) -> Operation:
        """Makes ready what is not part of an operation.

        Args:
            name: One of :meth:`names`.

        Returns:
            The operation itself.
        """
        kind, _, where = name.partition(" ")
        if kind == "append":
            message = self._store.messages(1)[0]
            if where == "0":
                conversation = await self._store.conversation(f"new-{next(self._numbers)}")
            else:
                conversation = self._kept[name]
            return lambda: conversation.append(message)
        if kind == "batch":
            messages = self._store.messages(BATCH)
            return lambda: self._kept["batches"].append_many(messages)
        if kind == "latest":
            return lambda: _expect(LATEST, self._kept["many"].latest(LATEST))
        key, count = {
            "10": ("few", 10),
            "some": ("some", self._plan.some),
            "many": ("many", self._plan.many),
        }[where]
        return lambda: _expect(count, self._kept[key].restore())

    async def write_at_once(self) -> float:
        """Appends to many conversations at the same time.

        Returns:
            Messages per second.
        """
        each, count = self._plan.each, self._plan.concurrent
        messages = [self._store.messages(each) for _ in range(count)]
        started = time.perf_counter()
        await asyncio.gather(
            *(_append_all(self._kept[f"{number}"], messages[number]) for number in range(count))
        )
        return count * each / (time.perf_counter() - started)

    async def _keep(self, name: str, count: int) -> None:
        conversation = await self._store.conversation(name.replace(" ", "-"))
        await conversation.fill(self._store.messages(count))
        self._kept[name] = conversation

    def _size(self) -> int | None:
        if self._store.alias != "postgresql":
            return None
        return table_size(self._store.tables())


async def measure(stores: Sequence[Store], plan: Plan) -> dict[str, Figures]:
    """Measures stores side by side.

    Args:
        stores: The stores on one database.
        plan: How much is measured.

    Returns:
        The figures of each store, by its name.
    """
    alias = stores[0].alias
    figures = {store.name: Figures() for store in stores}
    operations = {}
    for store in stores:
        await store.start()
        operations[store.name] = made = Operations(store, plan)
        figures[store.name].size = await made.fill()
    settle(alias)
    # What was filled stays; collecting it again and again would be measured too.
    gc.collect()
    gc.freeze()
    taken: dict[tuple[str, str], list[float]] = defaultdict(list)
    rates: dict[str, list[float]] = defaultdict(list)
    for turn in range(plan.rounds):
        # Nobody always comes after the same neighbour.
        order = [store.name for store in stores]
        order = order[turn % len(order) :] + order[: turn % len(order)]
        for operation in operations[order[0]].names():
            for name in order:
                taken[name, operation] += await _turn(operations[name], operation)
        for name in order:
            rates[name].append(await operations[name].write_at_once())
    for (name, operation), seconds in taken.items():
        if seconds:
            figures[name].seconds[operation] = statistics.median(seconds)
    for name, found in rates.items():
        figures[name].rate = statistics.median(found)
    for store in stores:
        await store.stop()
    gc.unfreeze()
    return figures


async def _turn(operations: Operations, name: str) -> list[float]:
    times = operations.names()[name]
    ready = [await operations.prepare(name) for _ in range(times)]
    taken = []
    for operation in ready:
        started = time.perf_counter()
        try:
            await operation()
        except NotImplementedError:
            return []
        taken.append(time.perf_counter() - started)
    return taken


async def _append_all(conversation: Conversation, messages: Sequence[Message]) -> None:
    for message in messages:
        await conversation.append(message)


async def _expect(count: int, found: Awaitable[int]) -> None:
    if (there := await found) != count:
        raise AssertionError(f"{there} messages were read instead of {count}")
