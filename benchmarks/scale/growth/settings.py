"""Django's settings for one of the two sizes: the admin's, and the REST API's beside them."""

from __future__ import annotations

from benchmarks.scale.settings import (
    ALLOWED_HOSTS,
    DATABASES,
    DEFAULT_AUTO_FIELD,
    MIDDLEWARE,
    SECRET_KEY,
    STATIC_URL,
    TEMPLATES,
    USE_TZ,
)
from benchmarks.scale.settings import INSTALLED_APPS as ADMIN

__all__ = [
    "ALLOWED_HOSTS",
    "DATABASES",
    "DEFAULT_AUTO_FIELD",
    "INSTALLED_APPS",
    "MIDDLEWARE",
    "ROOT_URLCONF",
    "SECRET_KEY",
    "STATIC_URL",
    "TEMPLATES",
    "USE_TZ",
]

INSTALLED_APPS = [*ADMIN, "rest_framework", "django_filters"]
ROOT_URLCONF = "benchmarks.scale.growth.urls"
