"""Streaming views: native async views with REST framework's authentication and errors.

REST framework's own views are sync. Authentication, permissions and throttles run in a thread; then
that thread's database connections are closed, so that an answer that takes minutes holds none.
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

    A handler receives REST framework's request, may raise its exceptions, and returns one of its
    responses or a ``StreamingHttpResponse``. ORM code runs with
    :func:`~django_agent_sessions.db.bridge.run_async` or :meth:`in_thread`.
    """

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Any:
        """Return the view. It has no transaction, which would be open as long as the stream."""
        return markcoroutinefunction(super().as_view(**initkwargs))

    async def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:  # type: ignore[override] # async, unlike its base
        """Prepare the request as REST framework does, then await the handler."""
        kwargs = self.taken(request, kwargs)
        self.args, self.kwargs = args, kwargs
        self.request = request = self.initialize_request(request, *args, **kwargs)
        self.headers = self.default_response_headers
        try:
            await self.in_thread(self._begin, request, *args, **kwargs)
            name = (request.method or "").lower()
            is_allowed = name in self.http_method_names
            handler = getattr(self, name, None) if is_allowed else None
            response = await (handler or self._method_not_allowed)(request, *args, **kwargs)
        except Exception as error:
            response = await self.in_thread(self.handle_exception, error)
        final_response: HttpResponseBase = await self.in_thread(
            self._finish, request, response, *args, **kwargs
        )
        return final_response

    async def in_thread(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run sync code in a thread, then close that thread's idle connections."""

        def run() -> Any:
            try:
                return function(*args, **kwargs)
            finally:
                close_idle_connections()

        return await sync_to_async(run)()

    async def options(  # type: ignore[override] # async, unlike its base
        self, request: Any, *args: Any, **kwargs: Any
    ) -> Any:
        return await self.in_thread(super().options, request, *args, **kwargs)

    def _begin(self, request: Any, *args: Any, **kwargs: Any) -> None:
        self.initial(request, *args, **kwargs)
        # Both are lazy and may query the database, which must not happen in the event loop.
        _ = request.user.pk, request.auth

    async def _method_not_allowed(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        self.http_method_not_allowed(request, *args, **kwargs)

    def _finish(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:
        self.response = self.finalize_response(request, response, *args, **kwargs)
        if hasattr(self.response, "render") and not self.response.is_rendered:
            self.response.render()
        return self.response


class _EventStream(StreamingHttpResponse):
    """A response that calls ``when_closed`` when it is closed, even if it was never read."""

    when_closed: Callable[[], None] | None = None

    def close(self) -> None:
        super().close()
        if self.when_closed is not None:
            self.when_closed()


def event_stream_response(
    request: Any,
    pieces: AsyncIterator[bytes],
    *,
    headers: dict[str, str] | None = None,
    when_closed: Callable[[], None] | None = None,
) -> StreamingHttpResponse:
    """Return a response of server-sent events that no proxy buffers and no cache stores."""
    body: Any = pieces
    if not isinstance(getattr(request, "_request", request), ASGIRequest):
        body = _iterate_sync(pieces)
    response = _EventStream(body, content_type="text/event-stream; charset=utf-8")
    response.when_closed = when_closed
    # Otherwise nginx and Django's GZipMiddleware buffer the events.
    response["X-Accel-Buffering"] = "no"
    response["Content-Encoding"] = "identity"
    patch_cache_control(response, private=True, no_store=True)
    for name, value in (headers or {}).items():
        response[name] = value
    return response


def _iterate_sync(pieces: AsyncIterator[bytes]) -> Any:
    """Iterate an async iterator in this thread, under WSGI, where the stream occupies a worker."""
    import asyncio

    # A middleware may have opened one after the view to save the login session.
    close_idle_connections()
    with asyncio.Runner() as runner:
        try:
            while True:
                try:
                    yield runner.run(pieces.__anext__())  # type: ignore[arg-type] # our iterator returns coroutines
                except StopAsyncIteration:
                    return
        finally:
            close = getattr(pieces, "aclose", None)
            if close is not None:
                runner.run(close())


def close_idle_connections() -> None:
    """Close this thread's database connections, except one that is in a transaction."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()
