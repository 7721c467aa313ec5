"""Settings of the processes of a run; ``benchmarks.contexts`` passes them in ``CONTEXTS_…``."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from benchmarks.base_settings import *  # noqa: F403 - these settings, and more
from benchmarks.base_settings import INSTALLED_APPS

DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "CONN_MAX_AGE": 30,
        "ATOMIC_REQUESTS": True,
        **json.loads(os.environ.get("CONTEXTS_DATABASE", "{}")),
    }
}
BROKER = os.environ.get("CONTEXTS_BROKER", "")
ROOT_URLCONF = "benchmarks.contexts.views"
# Django 6 has django.tasks; on Django 5.2, django-tasks stands in for it.
INSTALLED_APPS = [
    *INSTALLED_APPS,
    *(["django_tasks"] if sys.version_info < (3, 12) else []),
    "django_tasks_db",
    "benchmarks.contexts",
]
if os.environ.get("CONTEXTS_PATCH") == "gevent":
    MIDDLEWARE = ["benchmarks.contexts.views.Refusal"]
TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}
# A killed job's lease ends soon.
AGENT_SESSIONS = {"LEASE_SECONDS": 2}
