"""A private server, whose files the tests can read, as the project's database of sessions."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
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

ALIAS = "private"


class Router:
    """Sends everything to the private server."""

    def db_for_read(self, model: Any, **hints: Any) -> str:
        return ALIAS

    db_for_write = db_for_read


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
    connections.settings[ALIAS] = configuration
    try:
        call_command("migrate", database=ALIAS, verbosity=0)
        yield server
    finally:
        connections[ALIAS].close()
        del connections[ALIAS]
        del connections.settings[ALIAS]
