"""Settings of the example project: everything on this machine, nothing else needed.

``EXAMPLE_DATABASE`` is the SQLite file to use instead of ``example_project/.data/db.sqlite3``.
"""

from __future__ import annotations

import os
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent

# An example for one's own machine: it is served on localhost and its login is printed.
SECRET_KEY = os.environ.get("EXAMPLE_SECRET_KEY", "only-for-the-example")
DEBUG = os.environ.get("EXAMPLE_DEBUG", "1") == "1"
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_agent_sessions",
    "example_project.chat",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get(
            "EXAMPLE_DATABASE", str(BASE_DIR / "example_project" / ".data" / "db.sqlite3")
        ),
        "OPTIONS": {
            # A transaction takes the write lock when it begins. SQLite's default takes it at the
            # first write, and fails at once, whatever the timeout, if another process wrote since
            # the transaction's first read: two agents at work would meet that soon.
            "transaction_mode": "IMMEDIATE",
            # Seconds that a writer waits for another process's transaction.
            "timeout": 20,
            # WAL: readers (this site, the admin) and the one writer (an agent) do not wait for each
            # other; the mode stays with the file. synchronous=NORMAL: what was committed survives
            # the death of the process without an fsync at each message; FULL survives a power
            # failure too, at the price of one. secure_delete, which redaction needs, is switched on
            # by django_agent_sessions itself.
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }
}

ROOT_URLCONF = "example_project.urls"
WSGI_APPLICATION = "example_project.wsgi.application"
ASGI_APPLICATION = "example_project.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "static/"
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "chat:conversations"
LOGOUT_REDIRECT_URL = "login"

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
