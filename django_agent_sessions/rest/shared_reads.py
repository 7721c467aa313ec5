"""One read and one rendering for all streams that wait for the same events.

Streams of an event loop that ask at the same time are one batch, which one thread reads. Those that
ask in the meantime are the next batch: no stream gets what was read before it asked, so that a
redaction, a logout or a lost permission counts from the next read on, as if each read for itself.
Nothing is kept when no stream waits.
"""

from __future__ import annotations

import asyncio
import functools
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import router
from django.db.models import Model

from django_agent_sessions import conf
from django_agent_sessions.content.dialects import Dialect
from django_agent_sessions.db import bridge
from django_agent_sessions.events import reading
from django_agent_sessions.events.cursor import Cursor
from django_agent_sessions.models import Session

from .event_rendering import render_batch
from .open_streams import EndReason, OpenStream, check_streams
from .serializers.messages import MessageContext, read_agents

STREAMS_PER_BATCH = 500
"""Maximum number of streams that are read together."""

STREAMS_PER_STEP = 20
"""Number of streams that are woken before the event loop does other work."""


@dataclass(frozen=True, slots=True)
class Events:
    """What a stream sends next: rendered events, which may be none."""

    text: bytes
    cursor: Cursor
    """The cursor after the events."""

    more: bool
    """Whether there is more to read now."""


Outcome = Events | EndReason | BaseException


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    stream: OpenStream
    cursor: Cursor
    future: asyncio.Future[Events | EndReason]


_readers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Hashable, _Reader]] = (
    weakref.WeakKeyDictionary()
)


async def read_stream(stream: OpenStream, cursor: Cursor) -> Events | EndReason:
    """Check a stream's login and permissions again, and read the events after its cursor."""
    loop = asyncio.get_running_loop()
    readers = _readers.setdefault(loop, {})
    using = bridge.database()
    key = _place_of(stream, using)
    request = _Request(stream, cursor, loop.create_future())
    reader = readers.get(key)
    if reader is None:
        reader = readers[key] = _Reader(using, end=functools.partial(readers.pop, key))
        reader.task = loop.create_task(reader.run())
    reader.waiting.append(request)
    return await request.future


def _place_of(stream: OpenStream, using: str) -> Hashable:
    """Return what decides on which connections a stream is read."""
    if conf.get_settings().CONNECTION_SETUP is not None:
        # It may read the request's context, such as its tenant.
        return stream
    user = stream.login.user
    # A router may read it too.
    return (using, router.db_for_read(user.__class__) if isinstance(user, Model) else "")


class _Reader:
    """Read one batch after the other, as long as streams wait."""

    def __init__(self, using: str, end: Callable[[], object]) -> None:
        self.waiting: list[_Request] = []
        self.task: asyncio.Task[None] | None = None
        self._using = using
        self._end = end

    async def run(self) -> None:
        batch: list[_Request] = []
        try:
            while self.waiting:
                batch = self.waiting[:STREAMS_PER_BATCH]
                del self.waiting[:STREAMS_PER_BATCH]
                # A stream that was closed meanwhile reads nothing.
                batch = [request for request in batch if not request.future.done()]
                read = functools.partial(_read_batch, batch, self._using)
                try:
                    outcomes: Sequence[Outcome] = await bridge.run_reading(read, using=self._using)
                except Exception as error:
                    outcomes = [error] * len(batch)
                for number, (request, outcome) in enumerate(zip(batch, outcomes, strict=True)):
                    _set(request.future, outcome)
                    if number % STREAMS_PER_STEP == STREAMS_PER_STEP - 1:
                        await asyncio.sleep(0)
        finally:
            self._end()
            # Only if the loop ends: otherwise all have their outcome.
            for request in (*batch, *self.waiting):
                request.future.cancel()


def _set(future: asyncio.Future[Any], outcome: Outcome) -> None:
    if future.done():
        return
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


# --- in the thread ---------------------------------------------------------------------------


def _read_batch(requests: Sequence[_Request], using: str) -> list[Outcome]:
    """Read and render for each stream; once for those that are at the same place."""
    allowed = check_streams(request.stream for request in requests)
    asked: dict[Hashable, tuple[_Request, Session]] = {}
    for request in requests:
        session = allowed[request.stream]
        if isinstance(session, Session):
            asked.setdefault(_key_of(request), (request, session))
    read = dict(zip(asked, _read_distinct(list(asked.values()), using), strict=True))
    outcomes: list[Outcome] = []
    for request in requests:
        session = allowed[request.stream]
        outcomes.append(read[_key_of(request)] if isinstance(session, Session) else session)
    return outcomes


def _key_of(request: _Request) -> Hashable:
    """Return what the rendered text depends on, and nothing else."""
    cursor, stream = request.cursor, request.stream
    place = (cursor.session, cursor.change, tuple(cursor.agents.items()), cursor.redaction)
    return (stream.media_url, stream.session.owner_id, place, cursor.unnamed)


def _read_distinct(asked: Sequence[tuple[_Request, Session]], using: str) -> Iterator[Outcome]:
    batches = reading.read_batches([(session, request.cursor) for request, session in asked])
    agents: dict[UUID, tuple[str, Dialect]] = {}
    for (request, session), batch in zip(asked, batches, strict=True):
        if batch is None:
            yield EndReason.GONE
            continue
        if batch.agents - agents.keys():
            # Also those that were added since.
            agents |= read_agents({row.pk for _, row in asked}, using)
        context = MessageContext(session.pk, agents, request.stream.media_url)
        try:
            text = render_batch(batch, request.cursor, context)
        except Exception as error:
            # Of one session's messages: the other sessions' streams continue.
            yield error
        else:
            yield Events(text, batch.cursor, batch.more)
