"""A project with chats, on the running test's database."""

from __future__ import annotations

import os

from tests.settings import *  # noqa: F403 - what the tests have, and chats
from tests.settings import MIDDLEWARE as _MIDDLEWARE

from .models import OpenAIModel, StrandsModel

ROOT_URLCONF = "tests.rest.chat.ai_sdk.urls"
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "testserver"]
MIDDLEWARE = [*_MIDDLEWARE]
AGENT_SESSIONS = {"REDACT_ON_WRITE": ("card",)}
# Processes share it, as those of a real site do.
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.filebased.FileBasedCache",
        "LOCATION": os.environ.get("CACHE_FILES", "/nonexistent"),
    }
}
SUPPORT_MODEL = StrandsModel()
RESEARCH_MODEL = OpenAIModel()
