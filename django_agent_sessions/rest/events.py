"""The events of a session as a stream of server-sent events, resumed by their ids."""

from __future__ import annotations

import functools
import threading
import time
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable
from enum import Enum
from typing import Any, ClassVar
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpResponse
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework.exceptions import APIException, Throttled, ValidationError

from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.db import bridge
from django_agent_sessions.events import reading
from django_agent_sessions.events.cursor import Cursor, InvalidCursorError
from django_agent_sessions.events.event_types import MessageEvent, RemovedEvent, ResetEvent
from django_agent_sessions.events.hub import Watch, watch_session
from django_agent_sessions.models import Session, SessionAgent
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.queries.message_pages import MessagePreview
from django_agent_sessions.rest.base import ThrottleScope

from .base import SafeJSONRenderer
from .login_check import LoginCheck
from .pagination import reject_unknown_parameters
from .schema import SCOPE_PARAMETERS, SESSION_PARAMETER, describe_view, problem_responses
from .serializers.fields import format_datetime
from .serializers.messages import MessageContext, media_url, represent_message
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
            "enum": ["ready", "message", "removed", "session", "reset", "end"],
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
_NOT_ALLOWED = (Http404, PermissionDenied, APIException)


class EndReason(Enum):
    """Why a stream ends."""

    TIME = "time"
    """It lasted as long as it may: reconnect."""

    GONE = "gone"
    """The session, or the user's permission, is gone."""

    LOGIN = "login"
    """The user logged out or has a new password: reconnect with a new login."""


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

    login: LoginCheck
    """The login with which the stream was requested."""

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
            self.login = await self.in_thread(LoginCheck, request)
            represent_rows = self.representation(row)
            await self.in_thread(self.record_access, row, view="events")
            pieces = self._pieces(row, cursor, start, place, represent_rows)
            return event_stream_response(request, pieces, when_closed=place.give_back)
        except BaseException:
            # Now, not when the error's frames, which refer to the place, are collected.
            place.give_back()
            raise

    async def head(self, request: Any, session: UUID) -> HttpResponse:
        """Return the headers that ``GET`` would start with."""
        await self.in_thread(self._start, session)
        return HttpResponse(content_type="text/event-stream; charset=utf-8")

    def representation(
        self, session: Session
    ) -> Callable[[Session, list[MessagePreview]], list[Any]]:
        """Return a function that represents filled rows as JSON; it may query the database."""
        media = media_url(self)

        def represent_rows(session: Session, rows: list[MessagePreview]) -> list[Any]:
            reading = MessageContext.of(session, self.using, media_url=media)
            return [represent_message(row, reading) for row in rows]

        return represent_rows

    # --- the start of a stream ---------------------------------------------------------------

    def _start(self, key: str) -> tuple[Session, Cursor, str]:
        """Return the session, the cursor to start at, and how the request chose it."""
        # If a misspelled parameter were ignored, the client would miss events.
        reject_unknown_parameters(self.request, ["from", LAST_EVENT_ID])
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
        self,
        session: Session,
        cursor: Cursor,
        start: str,
        place: StreamSlot,
        represent_rows: Callable[[Session, list[MessagePreview]], list[Any]],
    ) -> AsyncIterator[bytes]:
        """Yield encoded events until the stream ends; read a batch when the last one was sent."""
        asgi = isinstance(self.request._request, ASGIRequest)
        deadline = time.monotonic() + (self.max_seconds if asgi else self.max_seconds_wsgi)
        # Close the connection that a middleware opened after the view to save the login session.
        await self.in_thread(_close_connections)
        try:
            with watch_session(session.pk) as watch:
                yield f"retry: {self.retry_milliseconds}\n\n".encode()
                ready = {"session": str(session.pk), "from": start}
                yield self._encoded("ready", ready, cursor)
                while True:
                    read = functools.partial(self._read, session, cursor, represent_rows)
                    batch = await bridge.run_async(read, using=self.using)
                    if isinstance(batch, EndReason):
                        yield self._encoded("end", {"reason": batch.value})
                        return
                    pieces, cursor, more = batch
                    for piece in pieces:
                        yield piece
                    if not more:
                        async for comment in self._wait(watch, deadline):
                            yield comment
                    if time.monotonic() >= deadline:
                        yield self._encoded("end", {"reason": EndReason.TIME.value})
                        return
        finally:
            place.give_back()

    async def _wait(self, watch: Watch, deadline: float) -> AsyncIterator[bytes]:
        """Wait for a change, or until the next check; yield keep-alive comments meanwhile."""
        check = min(deadline, time.monotonic() + self.check_seconds)
        comment = time.monotonic() + self.keep_alive_seconds
        while not await watch.happened(max(0.0, min(check, comment) - time.monotonic())):
            now = time.monotonic()
            if now >= check:
                return
            if now >= comment:
                comment = now + self.keep_alive_seconds
                yield b": still here\n\n"

    def _read(
        self,
        session: Session,
        cursor: Cursor,
        represent_rows: Callable[[Session, list[MessagePreview]], list[Any]],
    ) -> tuple[list[bytes], Cursor, bool] | EndReason:
        """Check the user's login and permissions again and read the next batch.

        Returns encoded events, the cursor after them, and whether there is more to read now; or
        why the stream ends.
        """
        allowed = self._recheck(session)
        if isinstance(allowed, EndReason):
            return allowed
        batch = reading.read_events(allowed, cursor)
        if batch is None:
            return EndReason.GONE
        rows = [event.row for event in batch.events if isinstance(event, MessageEvent)]
        messages = iter(represent_rows(batch.session, rows) if rows else ())
        pieces = []
        for event in batch.events:
            if isinstance(event, MessageEvent):
                name, data = "message", {**next(messages), "change": event.change.value}
            elif isinstance(event, RemovedEvent):
                name = "removed"
                data = {"agent": self._agent_name(event), "position": event.position}
            elif isinstance(event, ResetEvent):
                name, data = "reset", {"reason": event.reason.value}
            else:
                name, data = "session", _session_data(batch.session)
            pieces.append(self._encoded(name, data, event.cursor))
        last = batch.events[-1].cursor if batch.events else cursor
        if batch.cursor != last:
            # An id without data triggers no event, and the client remembers it.
            pieces.append(f"id: {batch.cursor.encode()}\n\n".encode())
        return pieces, batch.cursor, batch.more

    def _recheck(self, session: Session) -> Session | EndReason:
        """Return the session if the user may still read it and it has the same owner."""
        request = self.request
        try:
            # Django caches permissions on the user, and they may have been revoked.
            user = self.login.current_user()
            if user is None:
                return EndReason.GONE
            if not self.login.is_valid(user):
                return EndReason.LOGIN
            if user is not request.user:
                request.user = user
            self.check_permissions(request)
            current = self.session(session.pk, SessionPermission.READ)
        except _NOT_ALLOWED:
            return EndReason.GONE
        # Reading another user's session was recorded for this owner when the stream began.
        return current if current.owner_id == session.owner_id else EndReason.GONE

    def _agent_name(self, event: RemovedEvent) -> str:
        agents = SessionAgent.objects.using(self.using).filter(pk=event.agent)
        name: str = agents.values_list("agent_id", flat=True).first() or ""
        return displayable(name)

    def _encoded(self, name: str, data: Any, cursor: Cursor | None = None) -> bytes:
        head = f"event: {name}\n" if cursor is None else f"event: {name}\nid: {cursor.encode()}\n"
        return head.encode() + b"data: " + SafeJSONRenderer().render(data) + b"\n\n"


def _session_data(session: Session) -> dict[str, Any]:
    archived, expires = session.archived_at, session.expires_at
    return {
        "id": str(session.pk),
        "title": displayable(session.title),
        "archived_at": None if archived is None else format_datetime(archived),
        "expires_at": None if expires is None else format_datetime(expires),
        "legal_hold": session.legal_hold,
        "redactions": session.redactions,
    }


def _close_connections() -> None:
    """Do nothing: ``in_thread`` closes the thread's connections after it."""
