"""Django's settings of a process that writes to one node.

``GALERA_DATABASE`` is the entry of ``DATABASES``, in JSON.
"""

from __future__ import annotations

import json
import os

DATABASES = {"default": json.loads(os.environ["GALERA_DATABASE"])}
AGENT_SESSIONS: dict[str, object] = {}
SECRET_KEY = "galera"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django_agent_sessions",
]
# What is retried is said aloud; here it is counted by its outcome.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"none": {"class": "logging.NullHandler"}},
    "loggers": {
        name: {"handlers": ["none"], "propagate": False}
        for name in ("django_agent_sessions", "strands", "openai.agents", "django")
    },
}
