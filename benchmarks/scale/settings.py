"""Django's settings for a database of one size: the admin, and the REST API beside it.

``SCALE_DATABASE`` names the database; ``SCALE_SEARCH`` makes its search use the full-text index.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from benchmarks import base_settings as base
from benchmarks.base_settings import *  # noqa: F403 - settings build on settings
from benchmarks.postgresql import entry

IDLE = timedelta(days=82)
"""After which a tenth of the sessions of 90 days is due; the newest is a day old."""

DATABASES = {"default": entry(os.environ["SCALE_DATABASE"], CONN_MAX_AGE=600)}
ROOT_URLCONF = "benchmarks.scale.urls"
STATIC_URL = "static/"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.sessions",
    "django.contrib.messages",
    "rest_framework",
    "django_filters",
    *base.INSTALLED_APPS,
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]
# Few users send very many requests.
REST_FRAMEWORK = {"DEFAULT_THROTTLE_RATES": {"agent-sessions": None, "agent-sessions-search": None}}
AGENT_SESSIONS: dict[str, Any] = {
    "RETENTION": {"SESSIONS": {"*": {"IDLE": IDLE}}},
    "METADATA_FILTERS": ["channel"],
    "PRICES": {"model-1": {"input": 3, "output": 15}},
}
if os.environ.get("SCALE_SEARCH"):
    AGENT_SESSIONS["FULL_TEXT_SEARCH"] = "simple"
if folder := os.environ.get("SCALE_EXPORTS"):
    _backend = "django.core.files.storage.FileSystemStorage"
    STORAGES = {"exports": {"BACKEND": _backend, "OPTIONS": {"location": folder}}}
    AGENT_SESSIONS["EXPORT_STORAGE"] = "exports"
