"""Django's settings of a writer: the runner says by the environment which database and where.

``CHAOS_DATABASE`` is an entry of ``DATABASES`` in JSON, ``CHAOS_FILES`` the folder of the binaries,
``CHAOS_MOOD`` the file that says how their storage behaves.
"""

from __future__ import annotations

import json
import os

DATABASES = {"default": json.loads(os.environ["CHAOS_DATABASE"])}
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"},
    "binaries": {
        "BACKEND": "benchmarks.chaos.storage.MoodyStorage",
        "OPTIONS": {
            "location": os.environ["CHAOS_FILES"],
            "mood_file": os.environ["CHAOS_MOOD"],
        },
    },
}
AGENT_SESSIONS = {"BLOB_STORAGE": "binaries"}
SECRET_KEY = "chaos"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django_agent_sessions",
]
# What the store warns about is counted by the history, and would hide what is printed.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"none": {"class": "logging.NullHandler"}},
    "loggers": {
        name: {"handlers": ["none"], "propagate": False}
        for name in ("django_agent_sessions", "strands", "openai.agents", "django")
    },
}
