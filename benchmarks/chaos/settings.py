"""Django's settings of a writer: the runner says by the environment which database and where.

``CHAOS_DATABASE`` is an entry of ``DATABASES`` in JSON, ``CHAOS_FILES`` the folder of the binaries,
``CHAOS_MOOD`` the file that says how their storage behaves.
"""

from __future__ import annotations

import json
import os

from benchmarks.base_settings import *  # noqa: F403 - settings build on settings
from benchmarks.base_settings import SILENCE

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
LOGGING = SILENCE
