"""Views that stream: native async views with REST framework's authentication and errors.

REST framework's own views are sync. What comes before an answer (authentication, permissions,
throttles) runs in a thread here as ever; then that thread's database connections are closed, so
that an answer that takes minutes holds none.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from asgiref.sync import markcoroutinefunction, sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.db import connections
from django.http import HttpResponseBase, StreamingHttpResponse
from django.utils.cache import patch_cache_control

from .base import SessionAPI


class StreamingAPI(SessionAPI):
    """A view whose handlers (``get``, ``post`` …) are coroutines.

    They get REST framework's request, may raise what its views may raise, and return a response:
    one of REST framework's, or a ``StreamingHttpResponse``. The ORM is for
    :func:`~django_agent_sessions.bridge.run_async`, or for :meth:`in_thread`.
    """

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Any:
        """Makes the view, which no alias's ``ATOMIC_REQUESTS`` wraps: none could be held open."""
        view: Any = super().as_view(**initkwargs)
        if not getattr(view, "_is_coroutine_marked", False):
            view = markcoroutinefunction(view)
        view._non_atomic_requests = set(connections)
        return view

    async def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:  # type: ignore[override] # the view is async, and its base is not
        """Prepares the request as REST framework does, then awaits the handler."""
        kwargs = self.taken(request, kwargs)
        self.args, self.kwargs = args, kwargs
        self.request = request = self.initialize_request(request, *args, **kwargs)
        self.headers = self.default_response_headers
        try:
            await self.in_thread(self._begin, request, *args, **kwargs)
            name = (request.method or "").lower()
            known = name in self.http_method_names
            handler = getattr(self, name, None) if known else None
            response = await (handler or self._refuse)(request, *args, **kwargs)
        except Exception as error:
            response = await self.in_thread(self.handle_exception, error)
        finished: HttpResponseBase = await self.in_thread(
            self._finish, request, response, *args, **kwargs
        )
        return finished

    async def in_thread(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Runs sync code, such as REST framework's own, and gives its connections back after it."""

        def run() -> Any:
            try:
                return function(*args, **kwargs)
            finally:
                close_idle_connections()

        return await sync_to_async(run)()

    async def options(  # type: ignore[override] # as all handlers of this view
        self, request: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Describes the view."""
        return await self.in_thread(super().options, request, *args, **kwargs)

    def _begin(self, request: Any, *args: Any, **kwargs: Any) -> None:
        self.initial(request, *args, **kwargs)
        # Both are lazy, and may ask the database: not later, in the event loop.
        _ = request.user.pk, request.auth

    async def _refuse(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        self.http_method_not_allowed(request, *args, **kwargs)

    def _finish(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:
        self.response = self.finalize_response(request, response, *args, **kwargs)
        if hasattr(self.response, "render") and not self.response.is_rendered:
            self.response.render()
        return self.response


class _EventStream(StreamingHttpResponse):
    """A response that tells when it is closed, also if nobody read it."""

    when_closed: Callable[[], None] | None = None

    def close(self) -> None:
        super().close()
        if self.when_closed is not None:
            self.when_closed()


def event_stream(
    request: Any,
    pieces: AsyncIterator[bytes],
    *,
    headers: dict[str, str] | None = None,
    when_closed: Callable[[], None] | None = None,
) -> StreamingHttpResponse:
    """Answers with server-sent events."""
    body: Any = pieces
    if not isinstance(getattr(request, "_request", request), ASGIRequest):
        body = _in_this_thread(pieces)
    response = _EventStream(body, content_type="text/event-stream; charset=utf-8")
    response.when_closed = when_closed
    # nginx would collect them, and Django's GZipMiddleware compress until it has enough.
    response["X-Accel-Buffering"] = "no"
    response["Content-Encoding"] = "identity"
    patch_cache_control(response, private=True, no_store=True)
    for name, value in (headers or {}).items():
        response[name] = value
    return response


def _in_this_thread(pieces: AsyncIterator[bytes]) -> Any:
    """Reads an async iterator under WSGI, where a worker is taken by the stream until it ends."""
    import asyncio

    # A middleware may have opened one after the view, when it saved the session of the login.
    close_idle_connections()
    with asyncio.Runner() as runner:
        try:
            while True:
                try:
                    yield runner.run(pieces.__anext__())  # type: ignore[arg-type] # an iterator need not give coroutines: ours does
                except StopAsyncIteration:
                    return
        finally:
            close = getattr(pieces, "aclose", None)
            if close is not None:
                runner.run(close())


def close_idle_connections() -> None:
    """Closes this thread's database connections, save one that is in a transaction."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()
