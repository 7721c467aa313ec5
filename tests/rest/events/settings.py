"""Settings of a server that streams: what could hold a connection or keep events back is on."""

from __future__ import annotations

import os

from tests.settings import *  # noqa: F403 - it is these settings, and a server's
from tests.settings import DATABASES, MIDDLEWARE

ROOT_URLCONF = "tests.rest.events.urls"
ATOMIC = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:", "ATOMIC_REQUESTS": True}
DATABASES = {
    **DATABASES,
    # A transaction around a stream would be open as long as it is.
    "other": ATOMIC,
}
DATABASES["default"]["ATOMIC_REQUESTS"] = True
MIDDLEWARE = ["django.middleware.gzip.GZipMiddleware", *MIDDLEWARE]
SESSION_SAVE_EVERY_REQUEST = True
# The connections of a process can be told from others' by this name.
if os.environ.get("TEST_DATABASE") == "postgresql":
    DATABASES["default"]["OPTIONS"] = {"application_name": "events-server"}
AGENT_SESSIONS = {
    # Less often than an idle connection is kept for.
    "EVENTS_POLL_SECONDS": float(os.environ.get("EVENTS_POLL", "0.5")),
    "LISTEN_DATABASE": os.environ.get("EVENTS_LISTEN") or None,
}
