"""The example's settings for a server under load: what ``benchmarks.load`` says by ``LOAD_…``.

It is served as the example is, but without ``DEBUG``, on a database and a cache that processes
share. Passwords are hashed cheaply, because 200 people log in within seconds.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

os.environ["EXAMPLE_DEBUG"] = "0"

from benchmarks import postgresql
from example_project import settings as example

globals().update({name: getattr(example, name) for name in dir(example) if name.isupper()})

DIRECTORY = Path(os.environ["LOAD_DIRECTORY"])
"""Of this run alone: the files of conversations, and what the server wrote down."""

DATABASE = os.environ["LOAD_DATABASE"]
REQUESTS, OWN = "load: requests", "load: agents"
"""The names of connections at the database: those of requests, and of the app's own threads."""

_POOL = int(os.environ.get("LOAD_POOL", "0"))
_OPTIONS: dict[str, Any] = {"application_name": REQUESTS}
if _POOL:
    _OPTIONS["pool"] = {"min_size": 1, "max_size": _POOL, "timeout": 30}

ROOT_URLCONF = "benchmarks.load.urls"
WSGI_APPLICATION = "benchmarks.load.wsgi.application"
ASGI_APPLICATION = "benchmarks.load.asgi.application"
_CONN_MAX_AGE = int(os.environ.get("LOAD_CONN_MAX_AGE", "0"))
DATABASES: dict[str, dict[str, Any]] = {
    "default": postgresql.entry(DATABASE, CONN_MAX_AGE=_CONN_MAX_AGE, OPTIONS=_OPTIONS)
    if os.environ.get("LOAD_VENDOR", "postgresql") == "postgresql"
    else {
        **example.DATABASES["default"],
        "NAME": str(DIRECTORY / "db.sqlite3"),
        "CONN_MAX_AGE": _CONN_MAX_AGE,
    }
}
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": os.environ["LOAD_REDIS"],
        "KEY_PREFIX": DATABASE,
    }
    if os.environ.get("LOAD_REDIS")
    else {
        "BACKEND": "django.core.cache.backends.db.DatabaseCache",
        "LOCATION": "load_cache",
        "OPTIONS": {"MAX_ENTRIES": 1_000_000},
    }
}
STORAGES = {
    **example.STORAGES,
    "conversations": {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": str(DIRECTORY / "files")},
    },
}
AGENT_SESSIONS = {
    **example.AGENT_SESSIONS,
    "MAX_CONNECTIONS": int(os.environ.get("LOAD_MAX_CONNECTIONS", "8")),
}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    # They are the clients' errors and counted there; Django logs each as a warning.
    "loggers": {"django.request": {"level": "ERROR"}},
}
