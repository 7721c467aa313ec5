"""Ending answers when their process ends, in a project's ``asgi.py``.

::

    from django_agent_sessions.rest.lifespan import ending_answers

    application = ending_answers(get_asgi_application())

Django takes no part in a server's shutdown, so that a server such as uvicorn just drops what still
runs. What was stored stays valid then, too; but other processes find out only after half a minute
that the session answers nothing any more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

Application = Callable[[Any, Any, Any], Awaitable[None]]
"""An ASGI application."""


def ending_answers(application: Application) -> Application:
    """Makes an application answer a server's lifespan protocol (ASGI): at its end, answers end."""

    async def wrapped(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await application(scope, receive, send)
            return
        heard = False

        async def receiving() -> Any:
            nonlocal heard
            heard = True
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                # Not at the top: this module is imported before Django is set up.
                from .ai_sdk.registry import runs

                await runs.end()
            return message

        try:
            await application(scope, receiving, send)
        except Exception:
            # Who takes no part in the protocol says so by any error before it has heard anything;
            # what comes after that is a failure of the application's own.
            if heard:
                raise
        if not heard:
            # Django's own takes no part in it.
            await _answered(receiving, send)

    return wrapped


async def _answered(receive: Any, send: Any) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.shutdown":
            await send({"type": "lifespan.shutdown.complete"})
            return
        await send({"type": "lifespan.startup.complete"})
