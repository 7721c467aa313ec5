"""SQLite: rewrite the file and empty its write-ahead log."""

from __future__ import annotations

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from .steps import Options, ScrubError, Section, Step, wait_until


def sqlite_sections(
    connection: BaseDatabaseWrapper, tables: list[str], options: Options
) -> list[Section]:
    """Return the steps; ``VACUUM`` rewrites all tables of the file, whatever their app."""
    with connection.cursor() as cursor:
        timeout, mode = _value(cursor, "PRAGMA busy_timeout"), _value(cursor, "PRAGMA journal_mode")
        # Samples of indexed columns, if SQLite is compiled to take them.
        cursor.execute("SELECT name FROM sqlite_master WHERE name = 'sqlite_stat4'")
        has_samples = cursor.fetchone() is not None
    steps = [
        Step(f"PRAGMA busy_timeout={options.timeout * 1000:d}"),
        Step("PRAGMA secure_delete=ON"),
    ]
    if has_samples:
        steps.append(Step("ANALYZE"))
    steps.append(Step("VACUUM"))
    if mode == "wal":
        steps.append(
            Step("PRAGMA wal_checkpoint(TRUNCATE)", lambda cursor: _empty_log(cursor, options))
        )
    elif mode == "persist":
        # Otherwise the rollback journal keeps the pages that VACUUM has replaced.
        steps += [Step("PRAGMA journal_mode=DELETE"), Step("PRAGMA journal_mode=PERSIST")]
    return [Section(steps, finally_=(Step(f"PRAGMA busy_timeout={timeout:d}"),))]


def _empty_log(cursor: CursorWrapper, options: Options) -> str:
    if not wait_until(
        lambda: not _value(cursor, "PRAGMA wal_checkpoint(TRUNCATE)"), options.timeout
    ):
        raise ScrubError(
            "the write-ahead log could not be emptied, because another connection reads it; "
            "end that connection or run the command again"
        )
    return ""


def _value(cursor: CursorWrapper, statement: str) -> int | str:
    cursor.execute(statement)
    value: int | str = cursor.fetchone()[0]
    return value
