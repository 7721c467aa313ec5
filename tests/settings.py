"""Settings of the test project.

``TEST_DATABASE`` chooses the database: ``sqlite`` (the default), ``postgresql`` or ``mariadb``.
The servers are found by ``PGHOST``, ``PGPORT``, ``PGUSER``, ``PGPASSWORD`` and ``MYSQL_HOST``,
``MYSQL_PORT``, ``MYSQL_USER``, ``MYSQL_PASSWORD``.

A database's name carries this checkout and this process, so that several runs, in one clone or in
clones beside each other, share a server. A worker of pytest-xdist adds its own name.
``TEST_DATABASE_NAME`` hands the name on to processes that a test starts: they see the same
database.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

from django_agent_sessions.content import codec

from .sealed import ToyCodec

BASE_DIR = Path(__file__).resolve().parent.parent
TEST_DATABASE = os.environ.get("TEST_DATABASE", "sqlite")


def _new_database_name() -> str:
    """Names a database that no other checkout and no other process uses."""
    checkout = hashlib.sha256(str(BASE_DIR).encode()).hexdigest()[:8]
    return f"test_agent_sessions_{checkout}_{os.getpid()}"


def _database_name() -> str:
    """Returns the name that this process was given, to which a worker of pytest-xdist adds its own.

    Processes that a worker's test starts are told so, and keep the name.
    """
    name = os.environ.get("TEST_DATABASE_NAME") or _new_database_name()
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker in (None, os.environ.get("TEST_DATABASE_WORKER")):
        return name
    os.environ["TEST_DATABASE_WORKER"] = worker
    return f"{name}_{worker}"


def _sqlite(name: str) -> dict[str, Any]:
    """A file, because SQLite in memory has neither a second process nor a write-ahead log."""
    file = BASE_DIR / ".cache" / "test-databases" / name / "agent_sessions.sqlite3"
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(file),
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
        "TEST": {"NAME": str(file)},
    }


def _postgresql(name: str) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": name,
        "HOST": os.environ.get("PGHOST", "127.0.0.1"),
        "PORT": os.environ.get("PGPORT", "5432"),
        "USER": os.environ.get("PGUSER", "postgres"),
        "PASSWORD": os.environ.get("PGPASSWORD", ""),
        # The port is a pooler's in transaction mode where the server's own is given as well.
        "DISABLE_SERVER_SIDE_CURSORS": "PGDIRECTPORT" in os.environ,
        "TEST": {"NAME": name},
    }


def _mariadb(name: str) -> dict[str, Any]:
    """The server's own default collation, because that is what a project usually has."""
    return {
        "ENGINE": "django.db.backends.mysql",
        "NAME": name,
        "HOST": os.environ.get("MYSQL_HOST", "127.0.0.1"),
        "PORT": os.environ.get("MYSQL_PORT", "3306"),
        "USER": os.environ.get("MYSQL_USER", "root"),
        "PASSWORD": os.environ.get("MYSQL_PASSWORD", ""),
        "OPTIONS": {"charset": "utf8mb4"},
        "TEST": {"NAME": name, "CHARSET": "utf8mb4"},
    }


def _remove_own_directory(directory: Path, owner: int) -> None:
    """Deletes the SQLite files at the end of the process that named them, not of a fork."""
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)


DATABASE_NAME = _database_name()
_first_process = os.environ.get("TEST_DATABASE_NAME") != DATABASE_NAME
os.environ["TEST_DATABASE_NAME"] = DATABASE_NAME
_choices = {"sqlite": _sqlite, "postgresql": _postgresql, "mariadb": _mariadb}
DATABASES = {"default": _choices[TEST_DATABASE](DATABASE_NAME)}

if "REPLICAPORT" in os.environ:
    # A streaming replica, which follows whatever is done to the database.
    _replica = {"PORT": os.environ["REPLICAPORT"], "TEST": {"MIRROR": "default"}}
    DATABASES["replica"] = {**DATABASES["default"], **_replica}

if TEST_DATABASE == "sqlite" and _first_process:
    _directory = Path(DATABASES["default"]["NAME"]).parent
    _directory.mkdir(parents=True, exist_ok=True)
    atexit.register(_remove_own_directory, _directory, os.getpid())

SECRET_KEY = "test"
USE_TZ = True
ROOT_URLCONF = "tests.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ALLOWED_HOSTS = ["*"]
STATIC_URL = "static/"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "django_filters",
    "django_agent_sessions",
]
# One test process sends more requests than one user: test_quotas.py tests the default rates.
_SCOPES = ("", "-search", "-redact", "-export", "-branch", "-events", "-chat")
_RATES = {f"agent-sessions{scope}": None for scope in _SCOPES}
REST_FRAMEWORK: dict[str, Any] = {"DEFAULT_THROTTLE_RATES": _RATES}
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

if os.environ.get("TEST_CODEC") == "toy":
    # All tests, with sealed content: `make test-sealed`.
    codec.install(ToyCodec())
