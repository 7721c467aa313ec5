#!/usr/bin/env bash
# SQLite 3.50.4: an UPDATE that gives an indexed column the value it has writes each index with the column all the same.
#
# A store of conversations lists them by their last activity, so several indexes contain that column, and every append
# of a message updates the row. To spare the indexes, one would move the time only if it is some seconds old:
# SET n = n + 1, active = CASE WHEN active < … THEN … ELSE active END. On PostgreSQL that works: an update that leaves
# the indexed values equal is HOT and touches no index. SQLite decides by the statement's columns, not by their values:
# every index with the column is written, page by page, as if the time had moved. Only a statement that does not name
# the column spares them: the time in a second UPDATE with AND active < …, which writes nothing while it is young.
#
# Needs a PostgreSQL server at HOST and PORT (127.0.0.1, 5432) whose USER_NAME (root) may create databases.
# Seen on 2026-11-29, pages that SQLite wrote into its log for one update:
# {'the counter alone': 1, 'and the time, as it was': 5, 'and the time, if it is old': 5, 'the time, where it is old': 0}
# and how many of 50 updates of PostgreSQL 15.20 were HOT: {'and the time, if it is old': 50, 'and the time': 0}.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check 'apsw==3.50.4.0' 'psycopg[binary]==3.2.12'
"$folder/venv/bin/python" - "$folder" "${HOST:-127.0.0.1}" "${PORT:-5432}" "${USER_NAME:-root}" <<'PY'
import os
import sys
import time

import apsw
import psycopg

folder, host, port, user = sys.argv[1:]
INDEXES = ("active", "owner, active", "failed, active", "space, active")
TABLE = (
    "CREATE TABLE conversation "
    "(id INTEGER PRIMARY KEY, n INTEGER, active TEXT, owner INTEGER, failed INTEGER, space TEXT)"
)
YOUNG, OLD, NOW = "2026-11-29 10:00:03", "2026-11-29 10:00:00", "2026-11-29 10:00:05"
IF_OLD = f"n = n + 1, active = CASE WHEN active < '{OLD}' THEN '{NOW}' ELSE active END"


def indexes():
    return [f"CREATE INDEX by_{i} ON conversation ({columns})" for i, columns in enumerate(INDEXES)]


print("SQLite", apsw.sqlite_lib_version())
database = os.path.join(folder, "conversations.sqlite3")
connection = apsw.Connection(database)
for statement in ("PRAGMA journal_mode = WAL", "PRAGMA wal_autocheckpoint = 0", TABLE, *indexes()):
    connection.execute(statement)
with connection:
    connection.executemany(
        "INSERT INTO conversation VALUES (?, 0, ?, ?, 0, '')",
        [(key, YOUNG, key % 50) for key in range(5000)],
    )


def pages(statement):
    before = os.path.getsize(f"{database}-wal")
    connection.execute(statement)
    page = connection.execute("PRAGMA page_size").fetchone()[0]
    return (os.path.getsize(f"{database}-wal") - before) // page


def update(changes, where="id = 2500"):
    return f"UPDATE conversation SET {changes} WHERE {where}"


written = {
    "the counter alone": pages(update("n = n + 1")),
    "and the time, as it was": pages(update(f"n = n + 1, active = '{YOUNG}'")),
    "and the time, if it is old": pages(update(IF_OLD)),
    "the time, where it is old": pages(update(f"active = '{NOW}'", f"id = 2500 AND active < '{OLD}'")),
}
print(written)

name = f"finding_{time.time_ns()}"
place = f"host={host} port={port} user={user}"
admin = psycopg.connect(f"{place} dbname=postgres", autocommit=True)
print("PostgreSQL", admin.execute("SHOW server_version").fetchone()[0])
admin.execute(f"CREATE DATABASE {name}")
hot = {}
try:
    with psycopg.connect(f"{place} dbname={name}", autocommit=True) as server:
        for what, changes in (
            ("and the time, if it is old", IF_OLD),
            ("and the time", "n = n + 1, active = active || '0'"),
        ):
            server.execute("DROP TABLE IF EXISTS conversation")
            # Room in the page, as vacuum leaves it.
            for statement in (f"{TABLE} WITH (fillfactor = 50)", *indexes()):
                server.execute(statement)
            server.execute(f"INSERT INTO conversation SELECT 2500, 0, '{YOUNG}', 1, 0, ''")
            for _ in range(50):
                server.execute(update(changes))
            server.execute("SELECT pg_stat_force_next_flush()")
            row = server.execute(
                "SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'conversation'"
            )
            hot[what] = row.fetchone()[0]
finally:
    admin.execute(f"DROP DATABASE {name}")
print(hot)
assert written["the counter alone"] == 1 and written["the time, where it is old"] == 0, "this changed"
assert written["and the time, as it was"] == written["and the time, if it is old"] == 5, "this changed"
assert hot == {"and the time, if it is old": 50, "and the time": 0}, "this changed"
PY
