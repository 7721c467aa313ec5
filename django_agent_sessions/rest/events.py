"""The events of a session as a stream of server-sent events, resumed by their ids."""

from __future__ import annotations

import threading
import time
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable
from typing import Any, ClassVar
from uuid import UUID

from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpResponse
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework.exceptions import Throttled, ValidationError

from django_agent_sessions.events import reading
from django_agent_sessions.events.cursor import Cursor, InvalidCursorError
from django_agent_sessions.events.hub import Watch, watch_session
from django_agent_sessions.models import Session
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.rest.base import ThrottleScope

from .base import SafeJSONRenderer
from .event_rendering import render_event
from .login_check import LoginCheck
from .open_streams import EndReason, OpenStream
from .schema import SCOPE_PARAMETERS, SESSION_PARAMETER, describe_view, problem_responses
from .shared_reads import read_stream
from .streaming import StreamingAPI, event_stream_response

NOW = "now"
"""The default start of a stream: only what happens from now on."""

START = "start"
"""The start of a stream that repeats the whole conversation first."""

LAST_EVENT_ID = "last_event_id"
"""The query parameter for clients that cannot send the header ``Last-Event-ID``."""

_EVENT: dict[str, Any] = {
    "type": "object",
    "description": "One event of the stream.",
    "properties": {
        "event": {
            "type": "string",
            "enum": ["ready", "message", "removed", "session", "feedback", "reset", "end"],
            "description": "The kind of event.",
        },
        "id": {"type": "string", "description": "Send it as `Last-Event-ID` to resume after it."},
        "data": {
            "type": "string",
            "description": "JSON. For the event `message`, a message with the field `change`: "
            "new, changed or redacted. After `reset`, read the session again.",
        },
    },
    "required": ["event", "data"],
}


class StreamSlot:
    """One of a user's streams, until it is given back or garbage collected."""

    def __init__(self, release: Callable[[Hashable], None], key: Hashable) -> None:
        # Collected if the response is never iterated. Repeated calls do nothing.
        self.give_back = weakref.finalize(self, release, key)


class StreamLimit:
    """Count the open streams by key, in this process."""

    def __init__(self) -> None:
        # Reentrant: the garbage collector may release a slot during `take`.
        self._lock = threading.RLock()
        self._taken: Counter[Hashable] = Counter()

    def take(self, key: Hashable, most: int) -> StreamSlot | None:
        """Return a slot; None if the limit is reached."""
        with self._lock:
            if self._taken[key] >= most:
                return None
            self._taken[key] += 1
        return StreamSlot(self._release, key)

    def _release(self, key: Hashable) -> None:
        with self._lock:
            self._taken[key] -= 1
            self._taken += Counter()


class EventStreamRenderer(SafeJSONRenderer):
    """A renderer for requests that accept ``text/event-stream`` only; it renders errors as JSON."""

    media_type = "text/event-stream"
    # Must not add another value for ``?format=``.
    format = "json"


class SessionEventsView(StreamingAPI):
    """A stream of new, changed and redacted messages of one session as server-sent events.

    An idle stream holds no database connection, however many streams are open.
    """

    renderer_classes: Any = [SafeJSONRenderer, EventStreamRenderer]
    throttle_scope: str | None = ThrottleScope.EVENTS

    max_seconds: ClassVar[float] = 300
    """How long a stream lasts under ASGI. Clients reconnect and resume by themselves."""

    max_seconds_wsgi: ClassVar[float] = 25
    """How long a stream lasts under WSGI, where it occupies a worker."""

    max_streams: ClassVar[int] = 20
    """How many streams one user may have open in one process."""

    retry_milliseconds: ClassVar[int] = 2000
    """How long browsers wait before they reconnect."""

    keep_alive_seconds: ClassVar[float] = 15
    """Seconds of silence after which a comment is sent, against timeouts of proxies."""

    check_seconds: ClassVar[float] = 30
    """Seconds of silence after which the user's login and permissions are checked again."""

    places: ClassVar[StreamLimit] = StreamLimit()
    """The number of open streams of each user."""

    @describe_view(
        operation_id="sessions_events",
        tags=["Sessions"],
        summary="Stream the events of a session",
        parameters=[
            *SCOPE_PARAMETERS,
            SESSION_PARAMETER,
            OpenApiParameter(
                "from",
                str,
                enum=[NOW, START],
                default=NOW,
                description="Only events from now on, or all messages from the first one.",
            ),
            OpenApiParameter(
                LAST_EVENT_ID, str, description="The id of the last event, as `Last-Event-ID`."
            ),
            OpenApiParameter(
                "Last-Event-ID", str, "header", description="Resume after this event."
            ),
        ],
        responses={
            (200, "text/event-stream"): OpenApiResponse(_EVENT, description="Events."),
            **problem_responses(400, 404),
        },
    )
    async def get(self, request: Any, session: UUID) -> Any:
        """Stream the events of a session as server-sent events."""
        row, cursor, start = await self.in_thread(self._start, session)
        place = self.places.take(request.user.pk, self.max_streams)
        if place is None:
            raise Throttled(10, "Too many open streams. Close one of them.")
        try:
            login = await self.in_thread(LoginCheck, request)
            await self.in_thread(self.record_access, row, view="events")
            pieces = self._pieces(OpenStream(self, row, login), cursor, start, place)
            return event_stream_response(request, pieces, when_closed=place.give_back)
        except BaseException:
            # Now, not when the error's frames, which refer to the place, are collected.
            place.give_back()
            raise

    async def head(self, request: Any, session: UUID) -> HttpResponse:
        """Return the headers that ``GET`` would start with."""
        await self.in_thread(self._start, session)
        return HttpResponse(content_type="text/event-stream; charset=utf-8")

    # --- the start of a stream ---------------------------------------------------------------

    def _start(self, key: str) -> tuple[Session, Cursor, str]:
        """Return the session, the cursor to start at, and how the request chose it."""
        session = self.session(key, SessionPermission.READ)
        event_id = self.request.headers.get("Last-Event-ID") or self.request.query_params.get(
            LAST_EVENT_ID
        )
        if event_id:
            try:
                return session, Cursor.decode(event_id, session.pk), "cursor"
            except InvalidCursorError:
                hint = "Not the id of an event of this session. Use `from` instead."
                raise ValidationError({LAST_EVENT_ID: [hint]}) from None
        start = self.request.query_params.get("from", NOW)
        if start not in (NOW, START):
            raise ValidationError({"from": [f"Must be {NOW} or {START}."]})
        begin = reading.current_cursor if start == NOW else reading.first_cursor
        cursor = begin(session)
        if cursor is None:
            raise Http404
        return session, cursor, start

    # --- the stream --------------------------------------------------------------------------

    async def _pieces(
        self, stream: OpenStream, cursor: Cursor, start: str, place: StreamSlot
    ) -> AsyncIterator[bytes]:
        """Yield encoded events until the stream ends; read a batch when the last one was sent."""
        asgi = isinstance(self.request._request, ASGIRequest)
        deadline = time.monotonic() + (self.max_seconds if asgi else self.max_seconds_wsgi)
        session = stream.session.pk
        # Close the connection that a middleware opened after the view to save the login session.
        await self.in_thread(_close_connections)
        try:
            with watch_session(session) as watch:
                yield f"retry: {self.retry_milliseconds}\n\n".encode()
                ready = {"session": str(session), "from": start}
                yield render_event("ready", ready, cursor)
                while True:
                    events = await read_stream(stream, cursor)
                    if isinstance(events, EndReason):
                        yield _end(events)
                        return
                    cursor = events.cursor
                    if events.text:
                        yield events.text
                    if not events.more:
                        async for comment in self._wait(watch, deadline):
                            yield comment
                    if time.monotonic() >= deadline:
                        yield _end(EndReason.TIME)
                        return
        finally:
            place.give_back()

    async def _wait(self, watch: Watch, deadline: float) -> AsyncIterator[bytes]:
        """Wait for a change, or until the next check; yield keep-alive comments meanwhile."""
        now = time.monotonic()
        # At a multiple of the interval, so that many streams are checked together.
        check = min(deadline, now + self.check_seconds - now % self.check_seconds)
        comment = now + self.keep_alive_seconds
        while not await watch.happened(max(0.0, min(check, comment) - time.monotonic())):
            now = time.monotonic()
            if now >= check:
                return
            if now >= comment:
                comment = now + self.keep_alive_seconds
                yield b": still here\n\n"


def _end(reason: EndReason) -> bytes:
    return render_event("end", {"reason": reason.value})


def _close_connections() -> None:
    """Do nothing: ``in_thread`` closes the thread's connections after it."""
