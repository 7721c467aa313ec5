"""PostgreSQL: rewrite tables, indexes and statistics, and overwrite the write-ahead log."""

from __future__ import annotations

import functools

from django.db import NotSupportedError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from django_agent_sessions.sql.triggers import TRIGGERS

from .steps import Options, ScrubError, Section, Step, wait_until

_STATISTICS = "pg_catalog.pg_statistic"

_NEXT_SEGMENT = "SELECT pg_logical_emit_message(false, 'agent_sessions', ''), pg_switch_wal()"
_SEGMENTS = "FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$'"
_CURRENT_SEGMENT = "SELECT pg_walfile_name(pg_current_wal_insert_lsn())"

# A row that one of these may still read is copied to the new file.
_OLDER = """
    SELECT 'process ' || pid FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND (datname = current_database() OR datname IS NULL)
    AND (age(backend_xmin) > age(%(own)s::text::xid) OR age(backend_xid) > age(%(own)s::text::xid))
    UNION ALL
    SELECT 'replication slot ' || slot_name FROM pg_replication_slots
    WHERE age(xmin) > age(%(own)s::text::xid) OR age(catalog_xmin) > age(%(own)s::text::xid)
    UNION ALL
    SELECT 'prepared transaction ' || gid FROM pg_prepared_xacts
    WHERE database = current_database() AND age(transaction) > age(%(own)s::text::xid)
"""


def postgresql_sections(
    connection: BaseDatabaseWrapper, tables: list[str], options: Options
) -> list[Section]:
    """Return the steps for the tables, the planner's statistics, and the write-ahead log."""
    if connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS"):
        raise ScrubError(
            f"{connection.alias!r} goes through a pooler (DISABLE_SERVER_SIDE_CURSORS): use "
            "--database with an alias that connects to the server itself"
        )
    wait = Step(
        "-- wait until the transactions that are open now have ended",
        functools.partial(_wait_for_transactions, timeout=options.timeout),
    )
    limit = Step(f"SET lock_timeout = '{options.timeout:d}s'")
    reset = (Step("RESET lock_timeout"),)
    with connection.cursor() as cursor:
        rewrites = [step for table in tables for step in _rewrites(cursor, table)]
    found = [
        Section([limit, wait, *rewrites], finally_=reset),
        Section(
            # ANALYZE has left the samples that it replaced.
            [limit, wait, _rewrite(_STATISTICS)],
            optional="samples of former texts stay in the planner's statistics",
            finally_=reset,
        ),
    ]
    if options.logs:
        found.append(
            Section(
                _wal_steps(), optional="the write-ahead log (pg_wal) keeps what was written to it"
            )
        )
    return found


def _rewrites(cursor: CursorWrapper, table: str) -> list[Step]:
    cursor.execute(
        "SELECT format('%%I.%%I', nspname, relname), relkind = 'p' FROM pg_class "
        "JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE pg_class.oid = %s::regclass "
        "UNION SELECT relid::text, false FROM pg_partition_tree(%s::regclass) WHERE isleaf "
        "ORDER BY 2 DESC, 1",
        [table, table],
    )
    rows = cursor.fetchall()
    leaves = [name for name, is_partitioned in rows if not is_partitioned]
    if len(leaves) == len(rows):
        steps = [_rewrite(name, "FULL, ANALYZE") for name in leaves]
    else:
        # One partition after the other, so that each is locked for its own time only.
        steps = [*map(_rewrite, leaves), Step(f"ANALYZE {table}")]
    return [*_discard_samples(cursor, table, leaves), *steps]


def _has_rows(cursor: CursorWrapper, table: str) -> bool:
    cursor.execute(f"SELECT EXISTS (SELECT FROM {table})")
    return bool(cursor.fetchone()[0])


def _discard_samples(cursor: CursorWrapper, table: str, leaves: list[str]) -> list[Step]:
    """Discard the planner's statistics of empty tables, which ANALYZE leaves as they are."""
    if all(_has_rows(cursor, leaf) for leaf in leaves):
        return []
    cursor.execute(
        "SELECT format('ALTER COLUMN %%I TYPE %%s', attname, format_type(atttypid, atttypmod))"
        " || CASE WHEN collname IS NULL THEN ''"
        " ELSE format(' COLLATE %%I.%%I', nspname, collname) END"
        " FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid"
        " LEFT JOIN pg_collation ON pg_collation.oid = attcollation"
        " AND attcollation <> typcollation"
        " LEFT JOIN pg_namespace ON pg_namespace.oid = collnamespace"
        " WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
        " AND typname IN ('text', 'varchar', 'json', 'jsonb', 'bytea') ORDER BY attnum",
        [table],
    )
    # The same type again: nothing changes but that the statistics are gone.
    columns = ", ".join(column for (column,) in cursor.fetchall())
    cursor.execute(
        "SELECT tgname::text, pg_get_triggerdef(oid) FROM pg_trigger "
        "WHERE tgrelid = %s::regclass AND tgname = ANY(%s)",
        [table, [trigger.name for trigger in TRIGGERS]],
    )
    triggers = cursor.fetchall()
    # In one transaction: what a trigger names has to keep its type until the trigger is dropped.
    statement = "; ".join(
        [
            *(f"DROP TRIGGER {name} ON {table}" for name, _ in triggers),
            f"ALTER TABLE {table} {columns}",
            *(definition for _, definition in triggers),
        ]
    )

    def discard(cursor: CursorWrapper) -> str:
        try:
            with transaction.atomic(using=cursor.db.alias):
                cursor.execute(statement)
        except NotSupportedError:
            return (
                f"samples of former texts stay in the planner's statistics of {table}, which is "
                "empty: a view depends on it or a trigger of yours; run the command again when "
                "the table has rows"
            )
        return ""

    return [Step(statement, discard)] if columns else []


def _rewrite(table: str, options: str = "FULL") -> Step:
    statement = f"VACUUM ({options}) {table}"

    def rewrite(cursor: CursorWrapper) -> str:
        before = _file(cursor, table)
        cursor.execute(statement)
        if _file(cursor, table) != before:
            return ""
        # PostgreSQL only warns if the user is not the owner.
        return f"{table} was not rewritten: run the command as the owner of the database"

    return Step(statement, rewrite)


def _file(cursor: CursorWrapper, table: str) -> int:
    cursor.execute("SELECT pg_relation_filenode(%s::regclass)", [table])
    number: int = cursor.fetchone()[0]
    return number


def _wait_for_transactions(cursor: CursorWrapper, timeout: int) -> str:
    # Modulo 2 to the 32nd, because it has its epoch in the upper half.
    cursor.execute("SELECT txid_current() %% 4294967296", [])
    own = cursor.fetchone()[0]
    older: list[str] = []

    def have_ended() -> bool:
        cursor.execute(_OLDER, {"own": own})
        older[:] = [name for (name,) in cursor.fetchall()]
        return not older

    if not wait_until(have_ended, timeout):
        raise ScrubError(
            f"deleted rows are still visible to transactions that are open ({', '.join(older)}): "
            "end them, or run the command again with a longer --timeout"
        )
    return ""


def _wal_steps() -> list[Step]:
    """Replace the segments of the write-ahead log, which are reused without being overwritten."""
    first = ""

    def switch(cursor: CursorWrapper) -> str:
        nonlocal first
        cursor.execute("SELECT pg_switch_wal()")
        cursor.execute(_NEXT_SEGMENT)
        cursor.execute(_CURRENT_SEGMENT)
        first = cursor.fetchone()[0]
        return ""

    def overwrite(cursor: CursorWrapper) -> str:
        cursor.execute(f"SELECT max(name) {_SEGMENTS}")
        last = cursor.fetchone()[0]
        while True:
            cursor.execute(_CURRENT_SEGMENT)
            if cursor.fetchone()[0] > last:
                return ""
            cursor.execute(_NEXT_SEGMENT)

    def checkpoint(cursor: CursorWrapper) -> str:
        cursor.execute("CHECKPOINT")
        cursor.execute(f"SELECT count(*) {_SEGMENTS} AND name < %s", [first])
        kept = cursor.fetchone()[0]
        if not kept:
            return ""
        return (
            f"{kept} older segments of the write-ahead log (pg_wal) are kept for a replication "
            "slot, wal_keep_size or archiving: run the command again when they are not needed"
        )

    return [
        Step("SELECT pg_switch_wal()", switch),
        Step("CHECKPOINT"),
        Step(f"{_NEXT_SEGMENT} -- once for each segment in pg_wal", overwrite),
        Step("CHECKPOINT", checkpoint),
    ]
