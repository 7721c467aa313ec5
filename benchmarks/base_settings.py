"""Django's settings that all benchmarks share; each has databases of its own."""

from __future__ import annotations

from typing import Any

SECRET_KEY = "benchmark"
USE_TZ = True
TIME_ZONE = "UTC"
ALLOWED_HOSTS = ["*"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django_agent_sessions",
]
# Retries log warnings, which would hide the results; the outcome of each is counted.
SILENCE: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"none": {"class": "logging.NullHandler"}},
    "loggers": {
        name: {"handlers": ["none"], "propagate": False}
        for name in ("django_agent_sessions", "strands", "openai.agents", "django")
    },
}
