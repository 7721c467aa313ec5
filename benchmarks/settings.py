"""Django's settings for the measurement: databases of this process alone, set up as documented.

SQLite keeps its default ``synchronous=FULL``, as the other stores do, so that every store gives
the same promise.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

NAME = f"agent_sessions_benchmark_{os.getpid()}"
DIRECTORY = tempfile.mkdtemp(prefix="agent-sessions-benchmark-")
atexit.register(shutil.rmtree, DIRECTORY, ignore_errors=True)

DATABASES = {
    "default": {},
    "sqlite": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.path.join(DIRECTORY, "django.sqlite3"),
        "CONN_MAX_AGE": 60,
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL;",
        },
    },
    "postgresql": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": NAME,
        "HOST": os.environ.get("PGHOST", "127.0.0.1"),
        "PORT": os.environ.get("PGPORT", "5432"),
        "USER": os.environ.get("PGUSER", "postgres"),
        "PASSWORD": os.environ.get("PGPASSWORD", ""),
        "CONN_MAX_AGE": 60,
    },
}
SECRET_KEY = "benchmark"
USE_TZ = True
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django_agent_sessions",
]
