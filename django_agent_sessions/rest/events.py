"""A session's events as they happen: server-sent events, resumed by their ids."""

from __future__ import annotations

import functools
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, ClassVar

from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.db.models import Model
from django.http import Http404, HttpResponse
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework.exceptions import APIException, Throttled, ValidationError

from django_agent_sessions import bridge
from django_agent_sessions.events import reading
from django_agent_sessions.events.cursor import Cursor, InvalidCursorError
from django_agent_sessions.events.hub import Watch, watching
from django_agent_sessions.events.pages import MessageEvent, RemovedEvent, ResetEvent
from django_agent_sessions.events.places import Place, Places
from django_agent_sessions.models import Session, SessionAgent
from django_agent_sessions.permissions import Allowed
from django_agent_sessions.rest import throttles
from django_agent_sessions.transcripts import displayable
from django_agent_sessions.windows import Row

from .media import media_url
from .queries import refuse_unknown
from .renderers import SafeJSONRenderer
from .schema import ID, SCOPED, described, problems
from .serializers.fields import moment
from .serializers.messages import Reading, represent
from .streaming import StreamingAPI, event_stream

NOW = "now"
"""Where a stream begins unless it is told otherwise."""

START = "start"
"""Where a stream begins that tells of everything that is there."""

LAST_EVENT_ID = "last_event_id"
"""The query parameter for clients that cannot send the header ``Last-Event-ID``."""

_EVENT: dict[str, Any] = {
    "type": "object",
    "description": "One event of the stream.",
    "properties": {
        "event": {
            "type": "string",
            "enum": ["ready", "message", "removed", "session", "reset", "end"],
            "description": "What happened.",
        },
        "id": {"type": "string", "description": "To go on after it, as `Last-Event-ID`."},
        "data": {
            "type": "string",
            "description": "JSON. Of `message`: a message, and `change`: new, changed or redacted. "
            "After `reset`, the session is to be read anew.",
        },
    },
    "required": ["event", "data"],
}
_GONE = (Http404, PermissionDenied, APIException)


class EventStreamRenderer(SafeJSONRenderer):
    """Lets browsers ask for ``text/event-stream`` alone; what is no stream, an error, is JSON."""

    media_type = "text/event-stream"
    # Not another one to be asked for by ``?format=``.
    format = "json"


class SessionEventsView(StreamingAPI):
    """What happens in one session: new, changed and redacted messages, as server-sent events.

    No connection to the database is held while nothing happens, however many streams are open.
    """

    renderer_classes: Any = [SafeJSONRenderer, EventStreamRenderer]
    throttle_scope: str | None = throttles.EVENTS

    max_seconds: ClassVar[float] = 300
    """How long a stream lasts. Clients come back by themselves and go on where they were."""

    max_seconds_wsgi: ClassVar[float] = 25
    """How long it lasts under WSGI, where it takes a worker."""

    max_streams: ClassVar[int] = 20
    """How many streams one user may have open in one process."""

    retry_milliseconds: ClassVar[int] = 2000
    """How long browsers wait before they come back."""

    keep_alive_seconds: ClassVar[float] = 15
    """After how much silence a comment is sent, so that nothing on the way gives up."""

    check_seconds: ClassVar[float] = 30
    """After how much silence it is looked again whether the user may still see this."""

    places: ClassVar[Places] = Places()
    """Who has how many streams."""

    @described(
        operation_id="sessions_events",
        tags=["Sessions"],
        summary="Stream what happens in a session",
        parameters=[
            *SCOPED,
            ID,
            OpenApiParameter(
                "from",
                str,
                enum=[NOW, START],
                default=NOW,
                description="What comes from now on, or everything from the first message on.",
            ),
            OpenApiParameter(
                LAST_EVENT_ID, str, description="The id of the last event, as `Last-Event-ID`."
            ),
            OpenApiParameter("Last-Event-ID", str, "header", description="Go on after this event."),
        ],
        responses={
            (200, "text/event-stream"): OpenApiResponse(_EVENT, description="Events."),
            **problems(400, 404),
        },
    )
    async def get(self, request: Any, session: str) -> Any:
        """Streams what happens in a session, as server-sent events."""
        row, cursor, start = await self.in_thread(self._start, session)
        place = self.places.take(request.user.pk, self.max_streams)
        if place is None:
            raise Throttled(10, "You have too many streams open here. Close one of them.")
        try:
            represent_rows = self.representation(row)
            await self.in_thread(self.record_reading, row, view="events")
            pieces = self._pieces(row, cursor, start, place, represent_rows)
            return event_stream(request, pieces, when_closed=place.give_back)
        except BaseException:
            # Not when the error is forgotten, which its frames keep the place for.
            place.give_back()
            raise

    async def head(self, request: Any, session: str) -> HttpResponse:
        """Answers as ``GET`` would begin to."""
        await self.in_thread(self._start, session)
        return HttpResponse(content_type="text/event-stream; charset=utf-8")

    def representation(self, session: Session) -> Callable[[Session, list[Row]], list[Any]]:
        """Gives what represents messages, as the rest of the API does."""
        media = media_url(self)

        def all_of(session: Session, rows: list[Row]) -> list[Any]:
            known = Reading.of(session, self.using, media_url=media)
            return [represent(row, known) for row in rows]

        return all_of

    # --- where it starts ---------------------------------------------------------------------

    def _start(self, key: str) -> tuple[Session, Cursor, str]:
        """Finds the session, and from where on to tell of it."""
        # A misspelled place would be passed over, and what came since then be lost.
        refuse_unknown(self.request, ["from", LAST_EVENT_ID])
        session = self.session(key, Allowed.READ)
        given = self.request.headers.get("Last-Event-ID") or self.request.query_params.get(
            LAST_EVENT_ID
        )
        if given:
            try:
                return session, Cursor.decode(given, session.pk), "cursor"
            except InvalidCursorError:
                hint = "This is no event's id of this session. Begin with `from` instead."
                raise ValidationError({LAST_EVENT_ID: [hint]}) from None
        start = self.request.query_params.get("from", NOW)
        if start not in (NOW, START):
            raise ValidationError({"from": [f"Give {NOW} or {START}."]})
        cursor = reading.now(session) if start == NOW else reading.beginning(session)
        if cursor is None:
            raise Http404
        return session, cursor, start

    # --- the stream --------------------------------------------------------------------------

    async def _pieces(
        self,
        session: Session,
        cursor: Cursor,
        start: str,
        place: Place,
        represent_rows: Callable[[Session, list[Row]], list[Any]],
    ) -> AsyncIterator[bytes]:
        """Tells what happens until it ends; the next page is read when the last one was taken."""
        asgi = isinstance(self.request._request, ASGIRequest)
        deadline = time.monotonic() + (self.max_seconds if asgi else self.max_seconds_wsgi)
        # What a middleware opened after the view, when it saved the session of the login.
        await self.in_thread(_nothing)
        try:
            with watching(session.pk) as watch:
                yield f"retry: {self.retry_milliseconds}\n\n".encode()
                ready = {"session": str(session.pk), "from": start}
                yield self._encoded("ready", ready, cursor)
                while True:
                    read = functools.partial(self._read, session, cursor, represent_rows)
                    page = await bridge.run_async(read, using=self.using)
                    if page is None:
                        yield self._encoded("end", {"reason": "gone"})
                        return
                    pieces, cursor, more = page
                    for piece in pieces:
                        yield piece
                    if not more:
                        async for comment in self._quiet(watch, deadline):
                            yield comment
                    if time.monotonic() >= deadline:
                        yield self._encoded("end", {"reason": "time"})
                        return
        finally:
            place.give_back()

    async def _quiet(self, watch: Watch, deadline: float) -> AsyncIterator[bytes]:
        """Waits until there is something to look at, and says now and then that it waits."""
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
        represent_rows: Callable[[Session, list[Row]], list[Any]],
    ) -> tuple[list[bytes], Cursor, bool] | None:
        """Looks whether the user may still see the session, and reads what comes next."""
        allowed = self._still(session)
        if allowed is None:
            return None
        page = reading.read(allowed, cursor)
        if page is None:
            return None
        rows = [event.row for event in page.events if isinstance(event, MessageEvent)]
        messages = iter(represent_rows(allowed, rows) if rows else ())
        pieces = []
        for event in page.events:
            if isinstance(event, MessageEvent):
                data = {**next(messages), "change": event.change.value}
                pieces.append(self._encoded("message", data, event.cursor))
            elif isinstance(event, RemovedEvent):
                data = {"agent": self._name(event), "position": event.position}
                pieces.append(self._encoded("removed", data, event.cursor))
            elif isinstance(event, ResetEvent):
                pieces.append(self._encoded("reset", {"reason": event.reason.value}, event.cursor))
            else:
                pieces.append(self._encoded("session", _head(allowed), event.cursor))
        last = page.events[-1].cursor if page.events else cursor
        if page.cursor != last:
            # Without data it is no event, and the client remembers it.
            pieces.append(f"id: {page.cursor.encode()}\n\n".encode())
        return pieces, page.cursor, page.more

    def _still(self, session: Session) -> Session | None:
        """Looks again whether the user may see the session, which may be somebody else's now."""
        request, user = self.request, self.request.user
        try:
            if isinstance(user, Model):
                # Permissions are kept with a user, and may have been taken away.
                found_user = user.__class__._default_manager.filter(pk=user.pk).first()
                if found_user is None or not getattr(found_user, "is_active", True):
                    return None
                request.user = found_user
            self.check_permissions(request)
            found = self.session(session.pk, Allowed.READ)
        except _GONE:
            return None
        # The reading of another's session is recorded when a stream begins.
        return found if found.owner_id == session.owner_id else None

    def _name(self, event: RemovedEvent) -> str:
        agents = SessionAgent.objects.using(self.using).filter(pk=event.agent)
        name: str = agents.values_list("agent_id", flat=True).first() or ""
        return displayable(name)

    def _encoded(self, name: str, data: Any, cursor: Cursor | None = None) -> bytes:
        head = f"event: {name}\n" if cursor is None else f"event: {name}\nid: {cursor.encode()}\n"
        return head.encode() + b"data: " + SafeJSONRenderer().render(data) + b"\n\n"


def _head(session: Session) -> dict[str, Any]:
    """What people note about a session, under the names that the API gives it elsewhere."""
    archived, expires = session.archived_at, session.expires_at
    return {
        "id": str(session.pk),
        "title": displayable(session.title),
        "archived_at": None if archived is None else moment(archived),
        "expires_at": None if expires is None else moment(expires),
        "legal_hold": session.legal_hold,
        "redactions": session.redactions,
    }


def _nothing() -> None:
    """Does nothing; the thread's connections are closed after it."""
