"""MariaDB and MySQL: rebuild tables; on MariaDB also overwrite InnoDB's logs."""

from __future__ import annotations

import functools
import re
from typing import Any

from django.db import DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from django_agent_sessions.db.db_errors import error_number

from .steps import Options, ScrubError, Section, Step, wait_until

_FILLER = "agent_sessions_scrub"
_FILLER_ROWS = 600
"""Rows of 7,000 bytes: twice as many pages as InnoDB's doublewrite buffer has."""
_FILLER_BATCH = 40
"""Rows that one transaction updates: some pages of the undo log, which are allocated singly."""
_MAX_FILLERS = 4000
"""Transactions that overwrite the undo log: one gigabyte of it."""

_UNKNOWN_VARIABLE, _READ_ONLY_VARIABLE = 1193, 1238

_PURGE_STATE = re.compile(
    r"Trx id counter (\d+)\s+Purge done for trx's n:o < (\d+).*?History list length (\d+)",
    re.DOTALL,
)


def mysql_sections(
    connection: BaseDatabaseWrapper, tables: list[str], options: Options
) -> list[Section]:
    """Return the steps for the tables; MySQL's logs stay as they are."""
    found = [_rebuilding(connection, tables, options)]
    if options.logs:
        found.append(
            Section([_left("InnoDB's redo and undo logs, which only MariaDB can replace")])
        )
    return found


def mariadb_sections(
    connection: BaseDatabaseWrapper, tables: list[str], options: Options
) -> list[Section]:
    """Return the steps for the tables, the statistics, InnoDB's logs and the binary logs."""
    found = [
        _rebuilding(connection, tables, options),
        Section(
            [
                Step(
                    "-- ANALYZE TABLE … PERSISTENT FOR ALL, if that has been run before",
                    functools.partial(_sample_again, tables=tables),
                )
            ],
            optional="samples of former texts stay in mysql.column_stats, if there are any",
        ),
    ]
    if options.logs:
        found.append(
            Section(
                _log_steps(connection, options),
                optional="InnoDB's redo log, undo log and doublewrite buffer keep former contents",
                finally_=(Step(f"DROP TABLE IF EXISTS {_FILLER}"),),
            )
        )
        found += _binary_log_sections(connection, options)
    return found


def _rebuilding(connection: BaseDatabaseWrapper, tables: list[str], options: Options) -> Section:
    steps = [Step(f"SET SESSION lock_wait_timeout = {options.timeout:d}")]
    steps += [_rebuild(table) for table in tables]
    if not _variable(connection, "innodb_file_per_table"):
        steps.append(
            _left(
                "the former pages of the tables stay in the system tablespace (ibdata1), because "
                "innodb_file_per_table is off: switch it on and run the command again"
            )
        )
    return Section(steps, finally_=(Step("SET SESSION lock_wait_timeout = DEFAULT"),))


def _rebuild(table: str) -> Step:
    statement = f"OPTIMIZE TABLE {table}"

    def rebuild(cursor: CursorWrapper) -> str:
        # InnoDB rebuilds the table, and readers and writers go on.
        cursor.execute(statement)
        failed = [text for *_, kind, text in cursor.fetchall() if kind.lower() == "error"]
        if failed:
            raise ScrubError(f"{table} could not be rebuilt: {failed[0]}")
        return ""

    return Step(statement, rebuild)


def _sample_again(cursor: CursorWrapper, tables: list[str]) -> str:
    names = [table.strip("`") for table in tables]
    cursor.execute(
        "SELECT DISTINCT table_name FROM mysql.column_stats "
        "WHERE db_name = DATABASE() AND table_name IN %s",
        [names],
    )
    sampled = [name for (name,) in cursor.fetchall()]
    for name in sampled:
        cursor.execute(f"ANALYZE TABLE `{name}` PERSISTENT FOR ALL")
        cursor.fetchall()
    if sampled:
        cursor.execute("OPTIMIZE TABLE mysql.column_stats")
        cursor.fetchall()
    return ""


def _log_steps(connection: BaseDatabaseWrapper, options: Options) -> list[Step]:
    size = int(_variable(connection, "innodb_log_file_size"))
    resize = functools.partial(_resize_redo_log, size=size)
    return [
        Step(
            "-- wait until InnoDB has purged the old versions of rows",
            functools.partial(_wait_for_purge, timeout=options.timeout),
        ),
        Step(
            f"CREATE OR REPLACE TABLE {_FILLER} (id INT PRIMARY KEY) ENGINE=InnoDB "
            f"SELECT seq AS id, REPEAT('x', 7000) AS filler FROM seq_1_to_{_FILLER_ROWS}"
        ),
        Step(
            f"-- UPDATE {_FILLER}, until ibdata1 has no page that was free before",
            functools.partial(_overwrite_undo_log, connection=connection),
        ),
        _flush(),
        # Updated pages are written to the doublewrite buffer first.
        Step(f"UPDATE {_FILLER} SET filler = REPEAT('a', 7000)"),
        _flush(),
        Step("-- SET GLOBAL innodb_log_file_size to another size and back", resize),
    ]


def _overwrite_undo_log(cursor: CursorWrapper, connection: BaseDatabaseWrapper) -> str:
    """Use all free pages of the system tablespace, some of which were pages of the undo log."""
    if _variable(connection, "innodb_undo_tablespaces"):
        return (
            "the undo log in its own tablespaces: MariaDB overwrites what it frees there from now "
            "on if innodb_immediate_scrub_data_uncompressed is on"
        )
    reader = connection.copy()
    try:
        with reader.cursor() as reading:
            # Keeps the pages of each transaction from being freed and used again by the next one.
            reading.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            reading.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        before = _system_tablespace(cursor)
        for number in range(_MAX_FILLERS):
            # Another letter each time, because an update to the same value writes nothing.
            times, first = divmod(number * _FILLER_BATCH, _FILLER_ROWS)
            cursor.execute(
                f"UPDATE {_FILLER} SET filler = REPEAT(%s, 7000) WHERE id > %s AND id <= %s",
                ["yz"[times % 2], first, first + _FILLER_BATCH],
            )
            if _system_tablespace(cursor) != before:
                return ""
    finally:
        reader.close()
    return (
        "the undo log may keep former contents, because ibdata1 has more than a gigabyte of free "
        "pages; MariaDB overwrites what it frees there from now on if "
        "innodb_immediate_scrub_data_uncompressed is on"
    )


def _system_tablespace(cursor: CursorWrapper) -> int:
    cursor.execute(
        "SELECT FILE_SIZE FROM information_schema.INNODB_SYS_TABLESPACES WHERE SPACE = 0"
    )
    size: int = cursor.fetchone()[0]
    return size


def _flush() -> Step:
    statement = "SET GLOBAL innodb_log_checkpoint_now = ON"

    def flush(cursor: CursorWrapper) -> str:
        try:
            cursor.execute(statement)
        except DatabaseError as error:
            # Earlier releases have it in debug builds only, and write the pages a little later.
            if error_number(error) != _UNKNOWN_VARIABLE:
                raise
        return ""

    return Step(statement, flush)


def _wait_for_purge(cursor: CursorWrapper, timeout: int) -> str:
    """Wait until the undo log has nothing of the transactions that have committed by now."""
    until, _, _ = _purge_state(cursor)

    def is_purged() -> bool:
        _, purged, length = _purge_state(cursor)
        return purged >= until or length == 0

    if wait_until(is_purged, timeout):
        return ""
    return (
        "InnoDB's undo log keeps former contents, which a transaction may read that is open: end "
        "it, or run the command again with a longer --timeout"
    )


def _purge_state(cursor: CursorWrapper) -> tuple[int, int, int]:
    """Return the next transaction's number, the first one not purged, and how many are not."""
    cursor.execute("SHOW ENGINE INNODB STATUS")
    status = cursor.fetchone()[2]
    found = _PURGE_STATE.search(status)
    if found is None:
        raise ScrubError("SHOW ENGINE INNODB STATUS has another format than that of MariaDB")
    return int(found[1]), int(found[2]), int(found[3])


def _resize_redo_log(cursor: CursorWrapper, size: int) -> str:
    try:
        # A file of another size replaces the log, with nothing of it.
        cursor.execute("SET GLOBAL innodb_log_file_size = %s", [size + 4 * 2**20])
        cursor.execute("SET GLOBAL innodb_log_file_size = %s", [size])
    except DatabaseError as error:
        if error_number(error) != _READ_ONLY_VARIABLE:
            raise
        return "InnoDB's redo log, which MariaDB can replace since 10.9: change its size in my.cnf"
    return ""


def _binary_log_sections(connection: BaseDatabaseWrapper, options: Options) -> list[Section]:
    if not _variable(connection, "log_bin"):
        return []
    kept = "the binary logs keep former contents"
    if not options.binary_logs:
        return [
            Section(
                [
                    _left(
                        f"{kept}: when neither replicas nor restores to a point in time need them, "
                        "run the command with --purge-binary-logs"
                    )
                ]
            )
        ]
    purge = functools.partial(_purge_binary_logs, timeout=options.timeout)
    return [Section([Step("FLUSH BINARY LOGS"), Step("PURGE BINARY LOGS", purge)], kept)]


def _purge_binary_logs(cursor: CursorWrapper, timeout: int) -> str:
    kept = 0

    def are_purged() -> bool:
        nonlocal kept
        cursor.execute("SHOW BINARY LOGS")
        *older, last = [row[0] for row in cursor.fetchall()]
        kept = len(older)
        if kept:
            # Leaves what InnoDB needs after a crash, until its next checkpoint.
            cursor.execute("PURGE BINARY LOGS TO %s", [last])
        return not kept

    if wait_until(are_purged, timeout):
        return ""
    return f"binary logs ({kept}) that a replica or InnoDB still needs: run the command again"


def _left(what: str) -> Step:
    return Step(f"-- not done: {what}", lambda cursor: what)


def _variable(connection: BaseDatabaseWrapper, name: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT @@GLOBAL.{name}")
        return cursor.fetchone()[0]
