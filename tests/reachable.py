"""Tells whether the database server that the tests would use answers.

``python -m tests.reachable postgresql`` ends with 0 if it does. Otherwise it says in one line that
it does not and that its tests were not run, and ends with 3, which no crash ends with. ``--port``
only looks whether something listens, which needs no driver.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import warnings
from importlib import import_module
from typing import Any

import django
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connection

NOT_REACHABLE = 3
TITLES = {"postgresql": "PostgreSQL", "mariadb": "MariaDB"}


def why_not(database: str, *, port_only: bool) -> str:
    """Returns why the server cannot be used, or nothing if it can."""
    os.environ["TEST_DATABASE"] = database
    server: dict[str, Any] = import_module("tests.settings").DATABASES["default"]
    where = f"{server['HOST']}:{server['PORT']}"
    # PostgreSQL's HOST may be a directory with a socket in it.
    if not server["HOST"].startswith("/"):
        try:
            socket.create_connection((server["HOST"], int(server["PORT"])), timeout=3).close()
        except OSError:
            return f"not reachable at {where}"
    return "" if port_only else _refusal(server, where)


def _refusal(server: dict[str, Any], where: str) -> str:
    """Logs in, as the tests will, without a database of its own.

    The project's apps are left out: a mistake in them must not look like a server that is away.
    """
    settings.configure(DATABASES={"default": server}, INSTALLED_APPS=[])
    django.setup()
    try:
        with warnings.catch_warnings(action="ignore"), connection._nodb_cursor() as cursor:
            cursor.execute("SELECT 1")
    except (DatabaseError, ImproperlyConfigured) as error:
        reason = str(error).strip().splitlines()[0]
        return f"not usable at {where} ({reason})"
    return ""


def main() -> int:
    """Answers by the exit status and, if need be, with a line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("database", choices=list(TITLES))
    parser.add_argument("--port", action="store_true", help="only look whether something listens")
    arguments = parser.parse_args()
    reason = why_not(arguments.database, port_only=arguments.port)
    if reason:
        print(f"{TITLES[arguments.database]}: {reason}, its tests were not run")
    return NOT_REACHABLE if reason else 0


if __name__ == "__main__":
    sys.exit(main())
