"""``python -m benchmarks.upgrades.traffic read|append``: uses one session while another migrates.

Twenty times a second, it reads the latest messages or appends one, with statements of the first
schema, as servers do that still run the earlier release. It prints when it began each time, how
long that took, and the error, if any.
"""

from __future__ import annotations

import os
import sys
import time
import uuid

os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.upgrades.settings"

import django

django.setup()

from django.db import DatabaseError, connection, transaction

from benchmarks.upgrades.filling import TRAFFIC, new_message, traffic_keys

PAUSE = 0.05
LATEST = (
    "SELECT m.id, m.message, m.text FROM agent_sessions_sessionmessage m JOIN "
    "agent_sessions_session s ON s.id = m.session_id WHERE s.session_id = %s "
    "ORDER BY m.message_id DESC LIMIT 20"
)
COUNT = (
    "UPDATE agent_sessions_session SET message_count = message_count + 1, last_activity_at = "
    "last_activity_at WHERE id = %s"
)


def main() -> None:
    """Read or append until the process is ended."""
    work = _read if sys.argv[1] == "read" else _append
    while True:
        # The clock that all processes of a machine share.
        begun, error = time.monotonic(), ""
        try:
            work()
        except DatabaseError as raised:
            error = str(raised).partition("\n")[0].strip()
        lasted = time.monotonic() - begun
        print(begun, lasted, error, flush=True)
        time.sleep(max(0.0, PAUSE - lasted))


def _read() -> None:
    with connection.cursor() as cursor:
        cursor.execute(LATEST, [TRAFFIC])
        cursor.fetchall()


def _append() -> None:
    session, agent = traffic_keys()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(COUNT, [session])
        cursor.execute(
            "SELECT message_count - 1 FROM agent_sessions_session WHERE id = %s", [session]
        )
        position = cursor.fetchone()[0]
        statement, parameters = new_message(_hex(), session, agent, position)
        cursor.execute(statement, parameters)


def _hex() -> str:
    return f"{time.time_ns() // 1_000_000:012x}7000{uuid.uuid4().hex[16:]}"


if __name__ == "__main__":
    main()
