"""The API on uvicorn, at a free port of this machine, on the database of ``TEST_DATABASE_NAME``."""

from __future__ import annotations

import os
import socket

import uvicorn
from django.core.asgi import get_asgi_application


def main() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.rest.fuzzed_settings"
    application = get_asgi_application()
    # The description of its login, which drf-spectacular finds once it is imported.
    from django_agent_sessions.rest.events import SessionEventsView

    from . import fuzzed_tokens  # noqa: F401 - as the comment above says

    # A stream that goes on is no answer that could be looked at.
    SessionEventsView.max_seconds = 0

    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        print(listening.getsockname()[1], flush=True)
        config = uvicorn.Config(application, log_level="error", lifespan="off")
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
