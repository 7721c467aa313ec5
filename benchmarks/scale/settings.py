"""Django's settings for one of the two sizes: ``SCALE_DATABASE`` names its database."""

from __future__ import annotations

import os

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ["SCALE_DATABASE"],
        "HOST": os.environ.get("PGHOST", "127.0.0.1"),
        "PORT": os.environ.get("PGPORT", "5432"),
        "USER": os.environ.get("PGUSER", "postgres"),
        "PASSWORD": os.environ.get("PGPASSWORD", ""),
        "CONN_MAX_AGE": 600,
        "TEST": {"NAME": os.environ["SCALE_DATABASE"]},
    }
}
SECRET_KEY = "benchmark"
USE_TZ = True
ROOT_URLCONF = "benchmarks.scale.urls"
ALLOWED_HOSTS = ["*"]
STATIC_URL = "static/"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django_agent_sessions",
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
AGENT_SESSIONS = {"FULL_TEXT_SEARCH": "simple"}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
