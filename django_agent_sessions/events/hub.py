"""One look at the database for all streams of a process, and who is woken by it."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
import time
import weakref
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from uuid import UUID

from django_agent_sessions import bridge, conf

from .listening import Listener, listener
from .states import State, states

logger = logging.getLogger("django_agent_sessions")

SAFETY_SECONDS = 15.0
"""Seconds between two looks at sessions of which PostgreSQL would tell."""

HOT_SECONDS = 3.0
"""Seconds for which a session is looked at often after something was heard of it."""

HOT_EVERY = 0.25
"""Seconds between two of these looks."""

_LEAST_SECONDS = 0.05

_hubs: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Hub]] = (
    weakref.WeakKeyDictionary()
)


class Watch:
    """One who waits for something to happen in a session."""

    def __init__(self, session: UUID) -> None:
        self.session = session
        self._happened = asyncio.Event()

    def wake(self) -> None:
        """Says that something happened."""
        self._happened.set()

    async def happened(self, seconds: float) -> bool:
        """Waits until something happened since the last call."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._happened.wait()
        found = self._happened.is_set()
        self._happened.clear()
        return found


@contextmanager
def watching(session: UUID) -> Iterator[Watch]:
    """Watches a session in the running event loop.

    What happens between the beginning and the first wait is not missed.
    """
    loop = asyncio.get_running_loop()
    using = bridge.database()
    hubs = _hubs.setdefault(loop, {})
    hub = hubs.get(using) or hubs.setdefault(using, Hub(loop, using))
    watch = Watch(session)
    try:
        # It fails where ``LISTEN_DATABASE`` names no database: then nothing must stay, either.
        hub.add(watch)
        yield watch
    finally:
        hub.remove(watch)
        # What a hub waits with holds its loop: under WSGI, each stream has one.
        if hub.is_idle and hubs.get(using) is hub:
            del hubs[using]


class Hub:
    """Looks at all watched sessions at once; it runs only while somebody watches."""

    def __init__(self, loop: asyncio.AbstractEventLoop, using: str) -> None:
        # The hub is kept by its loop, and must not keep that.
        self._loop = weakref.ref(loop)
        self._using = using
        self._watches: dict[UUID, set[Watch]] = {}
        self._states: dict[UUID, State | None] = {}
        self._hot: dict[UUID, float] = {}
        self._nudged = asyncio.Event()
        self._all_due = 0.0
        self._task: asyncio.Task[None] | None = None
        self._listener: Listener | None = None
        self._failed = False

    def add(self, watch: Watch) -> None:
        """Begins to wake somebody."""
        self._watches.setdefault(watch.session, set()).add(watch)
        # What was said of it before nobody listened.
        self._heat(watch.session)
        loop = self._loop()
        if loop is not None and (self._task is None or self._task.done()):
            self._listener = listener(self._using)
            if self._listener is not None:
                self._listener.subscribe(self)
            # In a context of its own: it belongs to no request.
            self._task = loop.create_task(self._run(), context=contextvars.Context())

    def remove(self, watch: Watch) -> None:
        """Wakes somebody no longer."""
        watches = self._watches.get(watch.session, set())
        watches.discard(watch)
        if not watches:
            self._watches.pop(watch.session, None)
            self._states.pop(watch.session, None)
            self._hot.pop(watch.session, None)
        if not self._watches:
            if self._listener is not None:
                self._listener.unsubscribe(self)
                self._listener = None
            if self._task is not None:
                self._task.cancel()
                self._task = None

    @property
    def is_idle(self) -> bool:
        """Whether nobody watches."""
        return not self._watches

    def hear(self, session: UUID | None) -> None:
        """Takes what the listening thread heard: from any thread."""
        loop = self._loop()
        if loop is not None:
            # A loop that was closed meanwhile has nobody left to tell.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._heard, session)

    def _heard(self, session: UUID | None) -> None:
        if session is None:
            self._all_due = 0.0
        elif session in self._watches:
            self._heat(session)
        else:
            return
        self._nudged.set()

    def _heat(self, session: UUID) -> None:
        if conf.get_settings().LISTEN_DATABASE is not None:
            self._hot[session] = time.monotonic() + HOT_SECONDS

    async def _run(self) -> None:
        while self._watches:
            seconds = await self._tick()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._nudged.wait()
                # What is heard within a moment is looked at once.
                await asyncio.sleep(_LEAST_SECONDS)
            self._nudged.clear()

    async def _tick(self) -> float:
        """Looks at what is due."""
        now = time.monotonic()
        every = max(_LEAST_SECONDS, conf.get_settings().EVENTS_POLL_SECONDS)
        if self._listener is not None and self._listener.hears:
            every = max(every, SAFETY_SECONDS)
        self._all_due = min(self._all_due, now + every)
        self._hot = {key: until for key, until in self._hot.items() if until > now}
        if now >= self._all_due:
            # First, so that what is heard while it looks makes it look again.
            self._all_due = now + every
            await self._look(list(self._watches))
        elif self._hot:
            await self._look(list(self._hot))
        rest = self._all_due - time.monotonic()
        return max(_LEAST_SECONDS, min(rest, HOT_EVERY) if self._hot else rest)

    async def _look(self, sessions: Collection[UUID]) -> None:
        look = functools.partial(states, self._using, sessions)
        try:
            found = await bridge.run_async(look, using=self._using)
        except Exception as error:
            # The streams go on, and hear of everything when the database is back.
            if not self._failed:
                logger.warning("cannot look for events: %s", type(error).__name__)
            self._failed = True
            return
        self._failed = False
        for session in sessions:
            state = found.get(session)
            if session in self._watches and (
                session not in self._states or self._states[session] != state
            ):
                self._states[session] = state
                for watch in self._watches[session]:
                    watch.wake()
