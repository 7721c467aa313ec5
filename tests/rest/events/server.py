"""A server that streams, at a free port, on the database of ``TEST_DATABASE_NAME``."""

from __future__ import annotations

import os
import socket

import uvicorn
from django.core.asgi import get_asgi_application


def main() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.rest.events.settings"
    application = get_asgi_application()
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        # So that who asks too early waits, and is not refused.
        listening.listen(1024)
        print(listening.getsockname()[1], flush=True)
        config = uvicorn.Config(application, log_level="error", lifespan="off", ws="none")
        config.timeout_graceful_shutdown = 1
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
