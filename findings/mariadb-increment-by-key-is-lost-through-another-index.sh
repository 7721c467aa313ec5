#!/usr/bin/env bash
# MariaDB 10.11.19, READ COMMITTED: UPDATE … SET n = n + 1 … WHERE id = … AND owner = 7 misses its row, without an error.
#
# One would expect an increment in one statement, of a row found by its primary key, to be safe beside others: a second
# writer waits for the first one's lock and adds to what it left. But if the condition also names the first column of
# another index (an owner, and the time of the last activity, by which conversations are listed), MariaDB may look the
# row up in that index: where the owner has one row, both cost the same. If the first writer sets an earlier time, as
# programs do that took the time before they waited for the lock, it moves the row's entry to a place that the second
# has passed. The second then ends with 0 rows. By the key alone both are counted. READ COMMITTED is what Django sets
# for MySQL and MariaDB, and `filter(owner=…, pk=…).update(n=F("n") + 1, …)` writes this statement.
#
# Needs a MariaDB server at HOST and PORT (127.0.0.1, 3306) whose USER_NAME (root, no password) may create databases.
# Seen on 2026-11-29, rows that the second writer found, and the counter after both:
# {'by key and owner': (0, 1), 'by the key alone': (1, 2)}.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check 'PyMySQL==1.1.2'
"$folder/venv/bin/python" - "${HOST:-127.0.0.1}" "${PORT:-3306}" "${USER_NAME:-root}" <<'PY'
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pymysql

ID = "01a226ae-5f1a-71b1-a539-5b3401eab16d"
host, port, user = sys.argv[1], int(sys.argv[2]), sys.argv[3]


def connect(**options):
    # What counts is whether a row was found, as Django asks, not whether a value changed.
    found_rows = pymysql.constants.CLIENT.FOUND_ROWS
    connection = pymysql.connect(
        host=host, port=port, user=user, autocommit=True, client_flag=found_rows, **options
    )
    run(connection, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    return connection


def run(connection, statement):
    with connection.cursor() as cursor:
        count = cursor.execute(statement)
        return count, cursor.fetchall()


admin = connect()
print(run(admin, "SELECT VERSION()")[1][0][0])
database = f"finding_{time.time_ns()}"
table = f"{database}.conversation"
run(admin, f"CREATE DATABASE {database}")
seen = {}
try:
    for name, condition in (
        ("by key and owner", f"id = '{ID}' AND owner = 7"),
        ("by the key alone", f"id = '{ID}'"),
    ):
        run(admin, f"DROP TABLE IF EXISTS {table}")
        run(
            admin,
            f"CREATE TABLE {table} (id UUID PRIMARY KEY, owner INT, n INT, "
            "active DATETIME(6), INDEX mine (owner, active, id)) ENGINE=InnoDB",
        )
        run(admin, f"INSERT INTO {table} VALUES ('{ID}', 7, 0, '2026-11-29 10:00:02')")
        first, second = connect(database=database), connect(database=database)
        add = "UPDATE conversation SET active = '{}', n = n + 1 WHERE {}"
        with ThreadPoolExecutor(1) as pool:
            run(first, "BEGIN")
            run(first, f"SELECT n FROM conversation WHERE {condition.split(' AND ')[-1]} FOR UPDATE")
            adding = pool.submit(run, second, add.format("2026-11-29 10:00:03", condition))
            time.sleep(1)
            assert not adding.done(), "the second writer did not wait"
            run(first, add.format("2026-11-29 10:00:01", condition))
            run(first, "COMMIT")
            found, _ = adding.result()
        seen[name] = found, run(admin, f"SELECT n FROM {table}")[1][0][0]
finally:
    run(admin, f"DROP DATABASE {database}")
print(seen)
assert seen == {"by key and owner": (0, 1), "by the key alone": (1, 2)}, f"this changed: {seen}"
PY
