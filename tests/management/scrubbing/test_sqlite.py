"""After a scrub a secret is in no byte of SQLite's files, however it was written and removed."""

from __future__ import annotations

import io
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import AuditEvent
from django_agent_sessions.testing import columns_containing, files_containing
from tests.governance.redaction.planted_spellings import SECRET as SPELLED
from tests.governance.redaction.planted_spellings import UNREAD
from tests.governance.redaction.planting import SECRET

from .scenario import files_with, plant_everywhere, remove_everywhere
from .spellings import forms_in, plant_every_spelling

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("upstream_sqlite")]


@pytest.fixture
def file_of_its_own(upstream_sqlite, tmp_path, monkeypatch):
    """A copy of the empty database, which no thread of another test has open."""
    with closing(sqlite3.connect(connection.settings_dict["NAME"])) as source:
        monkeypatch.setitem(connection.settings_dict, "NAME", str(tmp_path / "own.sqlite3"))
        with closing(sqlite3.connect(tmp_path / "own.sqlite3")) as copy:
            source.backup(copy)
    yield
    connection.close()


def scrub(*options: str) -> str:
    out = io.StringIO()
    call_command("agent_sessions_scrub", *options, stdout=out)
    return out.getvalue()


def removed_by_another_program() -> None:
    """Plant the secret, and delete it as a program does that overwrites nothing."""
    plant_everywhere()
    other = sqlite3.connect(connection.settings_dict["NAME"])
    other.execute("PRAGMA secure_delete=OFF")
    other.execute("PRAGMA wal_autocheckpoint=0")
    with other:
        for table in connection.introspection.table_names():
            if table.startswith("agent_sessions_"):
                other.execute(f"DELETE FROM {table}")
    assert columns_containing(SECRET) == []
    assert files_containing(SECRET)
    # The last connection that closes would empty the log.
    assert connection.connection is not None
    other.close()


def test_no_byte_of_the_files_has_what_was_redacted_and_deleted():
    plant_everywhere()
    remove_everywhere()
    assert columns_containing(SECRET) == []

    told = scrub()

    assert files_containing(SECRET) == []
    assert "were rewritten" in told


def test_neither_the_files_nor_the_bucket_the_log_and_the_audit_trail_have_it(bucket, log):
    plant_everywhere()
    assert len(files_with(bucket)) >= 12

    remove_everywhere(keep_events=True)

    # Without a scrub, too: SQLite's files are overwritten at once.
    assert files_containing(SECRET) == []
    scrub()
    assert files_containing(SECRET) == []
    assert files_with(bucket) == {}
    assert SECRET not in log.text
    reasons = AuditEvent.objects.filter(action=AuditEvent.Action.REDACTED).values_list("reason")
    assert set(reasons) == {("She told us [REDACTED]",)}


def test_no_byte_has_any_spelling_of_what_one_redaction_removed():
    session = plant_every_spelling()
    assert len(forms_in(Path(connection.settings_dict["NAME"]).parent)) > 30

    done = redact(session, Find(SPELLED), reason="A request")
    scrub()

    assert len(done.unread) == len(UNREAD)
    assert forms_in(Path(connection.settings_dict["NAME"]).parent) == set()


def test_no_byte_of_the_files_has_what_another_program_deleted():
    removed_by_another_program()

    scrub()

    assert files_containing(SECRET) == []


def test_samples_of_sqlite_are_taken_again():
    plant_everywhere()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    remove_everywhere()

    scrub()

    assert files_containing(SECRET) == []


def test_a_journal_that_is_kept_is_deleted(file_of_its_own):
    plant_everywhere()
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode=PERSIST")
        assert cursor.fetchone() == ("persist",)
        remove_everywhere()

        scrub()

        assert files_containing(SECRET) == []
        cursor.execute("PRAGMA journal_mode")
        assert cursor.fetchone() == ("persist",)


def test_a_dry_run_prints_statements_and_runs_none():
    removed_by_another_program()
    before = files_containing(SECRET)

    told = scrub("--dry-run")

    assert "VACUUM;\nPRAGMA wal_checkpoint(TRUNCATE);\n" in told
    assert files_containing(SECRET) == before


def test_a_log_that_another_connection_reads_is_an_error_and_changes_no_setting():
    removed_by_another_program()
    reader = connection.copy()
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout")
        before = cursor.fetchone()
    try:
        with reader.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SELECT COUNT(*) FROM agent_sessions_sessionmessage")
            cursor.fetchone()

            with pytest.raises(CommandError, match=r"could not be emptied.*run the command again"):
                scrub("--timeout", "1")

            cursor.execute("ROLLBACK")
    finally:
        reader.close()
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout")
        assert cursor.fetchone() == before
    scrub()
    assert files_containing(SECRET) == []


def test_a_transaction_is_refused():
    with transaction.atomic(), pytest.raises(CommandError, match=r"cannot run in a transaction"):
        scrub()


@pytest.mark.parametrize("timeout", ["0", "-1", "soon", "1.5"])
def test_a_timeout_is_a_number_of_seconds(timeout):
    with pytest.raises(CommandError, match=r"use a number of seconds, such as 10"):
        scrub(f"--timeout={timeout}")
