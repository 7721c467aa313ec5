"""The measurement: each store in turn, round after round, so that all meet the same machine."""

from __future__ import annotations

import asyncio
import gc
import itertools
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence, Sized
from dataclasses import dataclass, field

from . import memory
from .databases import settle
from .messages import Message
from .stores import Conversation, Store, UnavailableError

BATCH = 100
"""Messages of an append in one call."""

LATEST = 20
"""Messages of a read of the latest."""

LISTED = 50
"""Sessions of a list."""

PATIENCE = 6.0
"""Seconds that one operation of one store may take in all rounds; then it is not repeated."""


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    some: int = 1_000  # messages of a conversation of middling length
    many: int = 10_000  # messages of a long one
    rounds: int = 5  # turns of every store
    appends: int = 40  # single appends in a turn
    concurrent: int = 50  # conversations that are written to at the same time
    each: int = 10  # messages that each of them gets in a turn
    sessions: int = 100_000  # of which some are listed
    turns: int = 500  # of the conversation whose bytes are counted
    processes: int = 100  # stores, at the most, that restore in a process of their own


QUICK = Plan(
    some=20,
    many=60,
    rounds=1,
    appends=5,
    concurrent=5,
    each=2,
    sessions=100,
    turns=5,
    processes=1,
)
"""A smoke test: the figures mean nothing."""


@dataclass
class Figures:
    """What one store was measured to need."""

    seconds: dict[str, float] = field(default_factory=dict)  # median of each operation
    rate: float | None = None  # messages per second of the concurrent conversations
    size: float | None = None  # bytes stored per message, indexes included
    written: int | None = None  # bytes written in a conversation of `Plan.turns`
    memory: int | None = None  # bytes that the restore of the long one takes more
    fewer: set[str] = field(default_factory=set)  # operations repeated less often


Operation = Callable[[], Awaitable[object]]


OPERATIONS = (
    "append 0",
    "append some",
    "append many",
    "batch",
    "restore 10",
    "restore some",
    "restore many",
    "latest",
    "list",
    "delete",
    "at once",
    "size",
)
"""What can be measured; the last two are no timed calls."""


class Operations:
    """The measured operations of one store, on conversations that are filled beforehand."""

    def __init__(self, store: Store, plan: Plan, wanted: Collection[str]) -> None:
        self._store = store
        self._plan = plan
        self._wanted = set(wanted)
        if store.longest < plan.many:
            self._wanted -= {"append many", "restore many", "latest", "delete"}
        self._numbers = itertools.count()
        self._kept: dict[str, Conversation] = {}

    async def fill(self) -> Figures:
        """Writes the conversations that are appended to and read."""
        plan, found = self._plan, Figures()
        # The first one warms everything up that is done once.
        for name in ("warm", "few"):
            await self._keep(name, 10)
        if self._wanted & {"restore many", "latest", "size"}:
            longest = min(plan.many, self._store.longest)
            before = await self._store.size()
            await self._keep("many", longest)
            after = await self._store.size()
            if before is not None and after is not None:
                found.size = (after - before) / longest
        if "size" in self._wanted:
            await self._talk(found)
        lengths = {
            "restore some": plan.some,
            "append some": plan.some,
            "append many": plan.many,
            "batch": 10,
        }
        for name in lengths.keys() & self._wanted:
            await self._keep(name, lengths[name])
        if "at once" in self._wanted:
            for number in range(plan.concurrent):
                self._kept[f"{number}"] = await self._store.concurrent(f"concurrent-{number}")
            # Opens the connections of every pool.
            await self.write_at_once()
        if "list" in self._wanted:
            try:
                await self._store.fill_sessions(plan.sessions)
            except NotImplementedError:
                self._wanted.remove("list")
        return found

    def times(self, name: str) -> int:
        """How often an operation runs in a turn."""
        if name not in self._wanted:
            return 0
        appends = self._plan.appends
        # A deletion needs a long conversation of its own.
        special = {"append some": appends, "append many": appends, "restore many": 2, "delete": 1}
        return special.get(name, max(1, appends // 8))

    async def prepare(self, name: str) -> Operation:
        """Makes ready what is not part of an operation."""
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
            return lambda: self._kept["batch"].append_many(messages)
        if kind == "latest":
            return lambda: _expect(LATEST, self._kept["many"].latest(LATEST))
        if kind == "list":
            listed = min(LISTED, self._plan.sessions)
            return lambda: _expect(listed, self._store.list_sessions(LISTED))
        if kind == "delete":
            doomed = f"doomed-{next(self._numbers)}"
            await (await self._store.conversation(doomed)).fill(
                self._store.messages(self._plan.many)
            )
            return lambda: self._store.delete(doomed)
        key, count = {
            "10": ("few", 10),
            "some": ("restore-some", self._plan.some),
            "many": ("many", self._plan.many),
        }[where]
        return lambda: _expect(count, _length(self._store.restore(key)))

    async def write_at_once(self) -> float:
        """Appends to many conversations at the same time."""
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

    async def _talk(self, found: Figures) -> None:
        """Has a conversation of questions and answers, one message after the other."""
        store, turns = self._store, self._plan.turns
        conversation = await store.conversation("talk")
        messages = store.messages(2 * turns)
        size, written = await store.size(), await store.written()
        for number, message in enumerate(messages):
            await conversation.append(message)
            if number % 2:
                await conversation.end_turn()
        now = await store.written()
        if written is not None and now is not None:
            found.written = now - written
        larger = await store.size()
        if store.rewrites and size is not None and larger is not None:
            found.size = (larger - size) / (2 * turns)


async def measure(
    stores: Sequence[Store],
    plan: Plan,
    missing: list[str],
    wanted: Collection[str] = OPERATIONS,
) -> dict[str, Figures]:
    """Measures stores side by side."""
    alias = stores[0].alias
    figures, operations, started = {}, {}, []
    for store in stores:
        _tell(f"{alias}: {store.name} is filled")
        try:
            await store.start()
        except UnavailableError as error:
            missing.append(f"{store.name} is left out: {error}")
            continue
        started.append(store)
        operations[store.name] = made = Operations(store, plan, wanted)
        figures[store.name] = await made.fill()
    stores = started
    settle(alias)
    # What was filled stays; collecting it again and again would be measured too.
    gc.collect()
    gc.freeze()
    taken: dict[tuple[str, str], list[float]] = defaultdict(list)
    rates: dict[str, list[float]] = defaultdict(list)
    for turn in range(plan.rounds):
        _tell(f"{alias}: round {turn + 1} of {plan.rounds}")
        # Nobody always comes after the same neighbour.
        order = [store.name for store in stores]
        order = order[turn % len(order) :] + order[: turn % len(order)]
        for operation in OPERATIONS[:-2]:
            for name in order:
                await _turn(operations[name], operation, taken[name, operation])
        if "at once" in wanted:
            for name in order:
                rates[name].append(await operations[name].write_at_once())
    for (name, operation), seconds in taken.items():
        if seconds:
            figures[name].seconds[operation] = statistics.median(seconds)
            if len(seconds) < plan.rounds * operations[name].times(operation):
                figures[name].fewer.add(operation)
    for name, found in rates.items():
        figures[name].rate = statistics.median(found)
    for store in stores[: plan.processes]:
        if "size" in wanted and store.longest >= plan.many:
            _tell(f"{alias}: {store.name} restores in a process of its own")
            figures[store.name].memory = memory.ask(store, "many", warm="few")
    for store in stores:
        await store.stop()
    gc.unfreeze()
    return figures


async def _turn(operations: Operations, name: str, taken: list[float]) -> None:
    for _ in range(operations.times(name)):
        if sum(taken) > PATIENCE:
            return
        operation = await operations.prepare(name)
        started = time.perf_counter()
        try:
            await operation()
        except NotImplementedError:
            return
        taken.append(time.perf_counter() - started)


async def _append_all(conversation: Conversation, messages: Sequence[Message]) -> None:
    for message in messages:
        await conversation.append(message)


async def _length(found: Awaitable[Sized]) -> int:
    return len(await found)


async def _expect(count: int, found: Awaitable[int]) -> None:
    if (there := await found) != count:
        raise AssertionError(f"{there} were read instead of {count}")


def _tell(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)
