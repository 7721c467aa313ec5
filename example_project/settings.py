"""Settings of the example project: everything on this machine, nothing else needed.

``EXAMPLE_DATABASE`` is the SQLite file to use instead of ``example_project/.data/db.sqlite3``. The
pictures and documents of conversations are in a folder beside it.
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
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "django_agent_sessions",
    "example_project.chat",
]

MIDDLEWARE = [
    "example_project.policy.content_security_policy",
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

DATABASE = Path(
    os.environ.get("EXAMPLE_DATABASE") or BASE_DIR / "example_project" / ".data" / "db.sqlite3"
)
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(DATABASE),
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

# Large binaries of messages go here: no address of the site leads to this folder.
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    "conversations": {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": str(DATABASE.with_suffix(".files"))},
    },
}
AGENT_SESSIONS = {"BLOB_STORAGE": "conversations"}

ROOT_URLCONF = "example_project.urls"
WSGI_APPLICATION = "example_project.wsgi.application"
ASGI_APPLICATION = "example_project.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
# The page follows the browser's language, as far as there is a catalogue.
LANGUAGE_CODE = "en"
LANGUAGES = [
    ("de", "Deutsch"),
    ("en", "English"),
    ("es", "Español"),
    ("fr", "Français"),
    ("ja", "日本語"),
]
USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "static/"
# Pictures in a message come as base64, which is a third longer.
DATA_UPLOAD_MAX_MEMORY_SIZE = 8 * 1024 * 1024
LOGIN_URL = "login"
# Name and password of the demo's only user, which its login page shows.
DEMO_LOGIN = os.environ.get("EXAMPLE_DEMO_LOGIN", "")
LOGIN_REDIRECT_URL = "chat:home"
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

# The page has the cookie of Django's login; forged requests are refused by its CSRF token. Clients
# from elsewhere show a token, which api/token/ gives to whoever is logged in.
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "rest_framework.authentication.SessionAuthentication",
        "example_project.tokens.BearerAuthentication",
    ],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
}
