"""A private server, whose files the tests can read, as the project's database of sessions."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections

from benchmarks.servers.interface import Server
from benchmarks.servers.mariadb import MariaDBServer
from benchmarks.servers.places import scratch
from benchmarks.servers.postgresql import PostgreSQLServer

# Each database has its own.
collect_ignore = [
    f"test_{name}.py"
    for name in ("sqlite", "postgresql", "mariadb")
    if name != os.environ.get("TEST_DATABASE", "sqlite")
]
if os.environ.get("TEST_DATABASE", "sqlite") == "sqlite":
    collect_ignore.append("test_servers.py")

ALIAS = "private"


class Router:
    """Sends everything to the private server."""

    def db_for_read(self, model: Any, **hints: Any) -> str:
        return ALIAS

    db_for_write = db_for_read


@pytest.fixture
def bucket(tmp_path, settings) -> Path:
    """The folder of the storage of large binaries."""
    folder: Path = tmp_path / "bucket"
    settings.STORAGES = {
        **settings.STORAGES,
        "blobs": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": str(folder)},
        },
    }
    settings.AGENT_SESSIONS = {"BLOB_STORAGE": "blobs"}
    return folder


@pytest.fixture
def log(caplog):
    """All that is logged, but the SQL of Django itself."""
    caplog.set_level(logging.DEBUG)
    logging.getLogger("django.db.backends").setLevel(logging.INFO)
    return caplog


@pytest.fixture
def private(
    other_process, request: pytest.FixtureRequest, settings, django_db_blocker
) -> Iterator[Server]:
    """A server with our tables, as the alias ``private``; a test may give it settings."""
    of_vendor: dict[str, Any] = {"postgresql": PostgreSQLServer, "mariadb": MariaDBServer}
    given = getattr(request, "param", {})
    with scratch() as directory:
        server = of_vendor[os.environ["TEST_DATABASE"]](directory, settings=given)
        with server, django_db_blocker.unblock():
            server.create("private")
            settings.DATABASE_ROUTERS = [Router()]
            yield from _used(server)


def _used(server: Server) -> Iterator[Server]:
    configuration = copy.deepcopy(connections["default"].settings_dict)
    configuration.update(server.django("private"))
    # No pooler is before it, also where the tests go through one.
    configuration["DISABLE_SERVER_SIDE_CURSORS"] = False
    connections.settings[ALIAS] = configuration
    try:
        call_command("migrate", database=ALIAS, verbosity=0)
        yield server
    finally:
        connections[ALIAS].close()
        del connections[ALIAS]
        del connections.settings[ALIAS]
