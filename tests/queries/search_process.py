"""A process that makes, drops or describes the full-text index beside others.

``python -m tests.queries.search_process ACTION``; with ``--hurry``, it waits for nobody for long.
"""

from __future__ import annotations

import sys

import django

django.setup()

from django.core.management import execute_from_command_line
from django.db import connection
from django.test import override_settings


def main(action: str, *hurry: str) -> None:
    if hurry:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = 300")
    with override_settings(AGENT_SESSIONS={"FULL_TEXT_SEARCH": "simple"}):
        execute_from_command_line(["manage.py", "agent_sessions_search_index", action])


if __name__ == "__main__":
    main(*sys.argv[1:])
