"""Django's settings of ``python -m benchmarks``: databases of this process alone, as documented.

SQLite keeps its default ``synchronous=FULL``, as the other stores do, so that every store gives
the same promise.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from importlib.util import find_spec

from . import base_settings as base
from .base_settings import *  # noqa: F403 - settings build on settings
from .postgresql import entry

# A process that measures a part of it is told both by the one that started it.
NAME = os.environ.get("BENCHMARK_NAME", f"agent_sessions_benchmark_{os.getpid()}")
DIRECTORY = os.environ.get("BENCHMARK_DIRECTORY", "")
if not DIRECTORY:
    DIRECTORY = tempfile.mkdtemp(prefix="agent-sessions-benchmark-")
    atexit.register(shutil.rmtree, DIRECTORY, ignore_errors=True)

_POSTGRESQL = entry(NAME, CONN_MAX_AGE=60)
_PREPARING = {"server_side_binding": True, "prepare_threshold": 5}
DATABASES = {
    # For the stores of others that know no alias; they are measured on PostgreSQL.
    "default": _POSTGRESQL,
    "postgresql": {**_POSTGRESQL, "OPTIONS": _PREPARING},
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
}
INSTALLED_APPS = list(base.INSTALLED_APPS)
if find_spec("agentic_django"):
    INSTALLED_APPS.append("agentic_django")
    # It wants something that makes a dictionary of agents; nobody asks for one.
    AGENTIC_DJANGO_AGENT_REGISTRY = "builtins.dict"
