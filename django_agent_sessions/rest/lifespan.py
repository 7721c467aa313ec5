"""Ending running answers when the server process shuts down, from a project's ``asgi.py``.

::

    from django_agent_sessions.rest.lifespan import end_answers_at_shutdown

    application = end_answers_at_shutdown(get_asgi_application())

Django does not implement the lifespan protocol, so a server such as uvicorn drops running answers
at shutdown. What is stored stays valid then, too, but other processes notice only after half a
minute that the session is not answering any more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

Application = Callable[[Any, Any, Any], Awaitable[None]]
"""An ASGI application."""


def end_answers_at_shutdown(application: Application) -> Application:
    """Wrap an ASGI application, so that running answers end at the server's lifespan shutdown.

    The wrapped application receives the lifespan events as before.
    """

    async def lifespan_application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await application(scope, receive, send)
            return
        received = False

        async def receiving() -> Any:
            nonlocal received
            received = True
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                # Imported here, because this module is imported before Django is set up.
                from .chat.ai_sdk.run_registry import runs

                await runs.end()
            return message

        try:
            await application(scope, receiving, send)
        except Exception:
            # An application without lifespan support may raise before it receives an event; a later
            # error is a failure of the application.
            if received:
                raise
        if not received:
            # Django has no lifespan support.
            await _answer_lifespan(receiving, send)

    return lifespan_application


async def _answer_lifespan(receive: Any, send: Any) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.shutdown":
            await send({"type": "lifespan.shutdown.complete"})
            return
        await send({"type": "lifespan.startup.complete"})
