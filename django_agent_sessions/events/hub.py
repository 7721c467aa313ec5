"""Poll the database once for all streams of a process, and wake those with changes."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
import os
import time
import weakref
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import UUID

from django_agent_sessions import conf
from django_agent_sessions.db import bridge, write_hooks
from django_agent_sessions.values.run_context import SessionWrite

from .postgresql_listener import Listener, get_listener
from .session_states import SessionState, read_states

logger = logging.getLogger("django_agent_sessions")

FALLBACK_POLL_INTERVAL = 15.0
"""Seconds between two polls while PostgreSQL sends notifications."""

FREQUENT_POLL_SECONDS = 3.0
"""Seconds of frequent polling of a session after a notification or a change."""

FREQUENT_POLL_INTERVAL = 0.2
"""Seconds between two of these frequent polls, and at least between any two polls."""

_MIN_SECONDS = 0.05

_hubs: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Hub]] = (
    weakref.WeakKeyDictionary()
)


def stream_notifier(using: str) -> Callable[[SessionWrite], None] | None:
    """Return what notifies this process's streams of its own writes; None if there are none."""
    return _notify if _hubs_of(using) else None


def _notify(write: SessionWrite) -> None:
    for hub in _hubs_of(write.using):
        hub.hear_own(write.session)


def _hubs_of(using: str) -> list[Hub]:
    # keyrefs() is atomic: other threads begin and end loops meanwhile.
    loops = [reference() for reference in _hubs.keyrefs()]
    found = [_hubs.get(loop, {}).get(using) for loop in loops if loop is not None]
    return [hub for hub in found if hub is not None]


if hasattr(os, "register_at_fork"):
    # The loops run in the parent only.
    os.register_at_fork(after_in_child=_hubs.clear)


class Watch:
    """A stream that waits for changes of a session."""

    def __init__(self, session: UUID) -> None:
        self.session = session
        self._happened = asyncio.Event()

    def wake(self) -> None:
        """Wake the stream."""
        self._happened.set()

    async def happened(self, seconds: float) -> bool:
        """Wait until something changed since the last call, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._happened.wait()
        changed = self._happened.is_set()
        self._happened.clear()
        return changed


@contextmanager
def watch_session(session: UUID) -> Iterator[Watch]:
    """Watch a session in the running event loop.

    A change between the beginning and the first wait is not missed.
    """
    loop = asyncio.get_running_loop()
    using = bridge.database()
    # Not in a process that has no streams.
    if stream_notifier not in write_hooks.receivers:
        write_hooks.receivers.append(stream_notifier)
    hubs = _hubs.setdefault(loop, {})
    hub = hubs.get(using) or hubs.setdefault(using, Hub(loop, using))
    watch = Watch(session)
    try:
        # Raises if ``LISTEN_DATABASE`` is not a configured database; then clean up as well.
        hub.add(watch)
        yield watch
    finally:
        hub.remove(watch)
        # The hub's asyncio objects reference the loop, and under WSGI each stream has its own.
        if hub.is_idle and hubs.get(using) is hub:
            del hubs[using]


class Hub:
    """Poll all watched sessions together; it runs only while there are watches."""

    def __init__(self, loop: asyncio.AbstractEventLoop, using: str) -> None:
        # Weak, because `_hubs` references the hub as long as the loop exists.
        self._loop = weakref.ref(loop)
        self._using = using
        self._watches: dict[UUID, set[Watch]] = {}
        self._states: dict[UUID, SessionState | None] = {}
        self._poll_often_until: dict[UUID, float] = {}
        self._written: set[UUID] = set()
        self._last_poll = 0.0
        self._wakeup = asyncio.Event()
        self._next_full_poll = 0.0
        self._task: asyncio.Task[None] | None = None
        self._listener: Listener | None = None
        self._last_poll_failed = False

    def add(self, watch: Watch) -> None:
        self._watches.setdefault(watch.session, set()).add(watch)
        if conf.get_settings().LISTEN_DATABASE is not None:
            # Notifications from before were not received.
            self._poll_often(watch.session)
        loop = self._loop()
        if loop is not None and (self._task is None or self._task.done()):
            self._listener = get_listener(self._using)
            if self._listener is not None:
                self._listener.subscribe(self)
            # With an empty context: the task belongs to no request.
            self._task = loop.create_task(self._run(), context=contextvars.Context())

    def remove(self, watch: Watch) -> None:
        watches = self._watches.get(watch.session, set())
        watches.discard(watch)
        if not watches:
            self._watches.pop(watch.session, None)
            self._states.pop(watch.session, None)
            self._poll_often_until.pop(watch.session, None)
        if not self._watches:
            if self._listener is not None:
                self._listener.unsubscribe(self)
                self._listener = None
            if self._task is not None:
                self._task.cancel()
                self._task = None

    @property
    def is_idle(self) -> bool:
        """Whether there are no watches."""
        return not self._watches

    def hear(self, session: UUID | None) -> None:
        """Handle a notification from the listening thread; callable from any thread."""
        self._call(self._notified, session)

    def hear_own(self, session: UUID) -> None:
        """Handle a write of this process; callable from any thread."""
        if session in self._watches:
            self._call(self._wrote, session)

    def _call(self, function: Callable[[Any], None], session: UUID | None) -> None:
        loop = self._loop()
        if loop is not None:
            # Raised by a loop that was closed meanwhile.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(function, session)

    def _notified(self, session: UUID | None) -> None:
        if session is None:
            self._next_full_poll = 0.0
        elif session in self._watches:
            self._poll_often(session)
        else:
            return
        self._wakeup.set()

    def _wrote(self, session: UUID) -> None:
        self._written.add(session)
        self._wakeup.set()

    def _poll_often(self, session: UUID) -> None:
        self._poll_often_until[session] = time.monotonic() + FREQUENT_POLL_SECONDS

    async def _run(self) -> None:
        while self._watches:
            seconds = await self._tick()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wakeup.wait()
                # Notifications that arrive shortly after each other cause one poll.
                pause = self._last_poll + FREQUENT_POLL_INTERVAL - time.monotonic()
                await asyncio.sleep(max(_MIN_SECONDS, pause))
            self._wakeup.clear()

    async def _tick(self) -> float:
        """Poll the sessions that are due, and return the seconds until the next poll."""
        now = time.monotonic()
        interval = max(_MIN_SECONDS, conf.get_settings().EVENTS_POLL_SECONDS)
        if self._listener is not None and self._listener.is_listening:
            interval = max(interval, FALLBACK_POLL_INTERVAL)
        self._next_full_poll = min(self._next_full_poll, now + interval)
        self._poll_often_until = {
            key: until for key, until in self._poll_often_until.items() if until > now
        }
        written, self._written = self._written, set()
        if now >= self._next_full_poll:
            # Set before the poll, so that a notification during the poll causes another one.
            self._next_full_poll = now + interval
            await self._poll(set(self._watches), written)
        elif due := written | self._poll_often_until.keys():
            await self._poll(due, written)
        until_next = self._next_full_poll - time.monotonic()
        return max(
            _MIN_SECONDS,
            min(until_next, FREQUENT_POLL_INTERVAL) if self._poll_often_until else until_next,
        )

    async def _poll(self, sessions: Collection[UUID], written: Collection[UUID]) -> None:
        """Look at sessions; this process wrote to some of them."""
        self._last_poll = time.monotonic()
        look = functools.partial(read_states, self._using, sessions)
        try:
            current_states = await bridge.run_reading(look, using=self._using)
        except Exception as error:
            # The streams continue, and get all changes when the database is available again.
            if not self._last_poll_failed:
                logger.warning("could not poll for events: %s", type(error).__name__)
            self._last_poll_failed = True
            for session in written:
                self._poll_often(session)
            return
        self._last_poll_failed = False
        for session in sessions:
            state = current_states.get(session)
            if session not in self._watches:
                continue
            if session not in self._states or self._states[session] != state:
                # What this process wrote during the poll counts too.
                is_own = session in written or session in self._written
                if session in self._states and not is_own:
                    # Another process writes, and may write more.
                    self._poll_often(session)
                self._states[session] = state
                for watch in self._watches[session]:
                    watch.wake()
