"""What somebody mistypes on the command line is told in a line, and nothing is done."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
from datetime import UTC, date, datetime
from typing import Any

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command, get_commands, load_command_class
from django.db import connection, connections, transaction

from django_agent_sessions import audit
from django_agent_sessions.management.terminal import INTERRUPTED_STATUS, StoppableCommand
from django_agent_sessions.models import AuditEvent, SessionMessage
from tests.processes import ROOT, Process, start, unmeasured

pytestmark = pytest.mark.django_db


def test_all_commands_have_one_style_of_names_and_the_same_option_for_the_database():
    names = {name for name, app in get_commands().items() if app == "django_agent_sessions"}
    assert len(names) > 15
    for name in names:
        assert name.startswith("agent_sessions_")
        command = load_command_class("django_agent_sessions", name)
        assert isinstance(command, StoppableCommand)
        parser = command.create_parser("manage.py", name)
        [database] = [a for a in parser._actions if "--database" in a.option_strings]
        assert database.choices == tuple(connections)


@pytest.mark.parametrize(
    "command",
    [
        ["agent_sessions_purge_audit", "--before", "2020-01-31"],
        ["agent_sessions_search_index", "status"],
        ["agent_sessions_roll_up_usage"],
        ["agent_sessions_import", "jsonl", "-"],
        ["agent_sessions_export", "jsonl", "--reason", "none"],
    ],
)
def test_an_alias_that_is_none_is_told_with_those_that_are(command):
    with pytest.raises(CommandError, match=r"nope.*default"):
        call_command(*command, "--database", "nope")


COMMANDS = [
    ["agent_sessions_prune"],
    ["agent_sessions_gc"],
    ["agent_sessions_offload"],
    ["agent_sessions_scrub"],
    ["agent_sessions_check"],
    ["agent_sessions_purge_audit", "--before", "2020-01-31"],
    ["agent_sessions_redact", "talk", "--find", "x", "--reason", "y"],
    ["agent_sessions_roll_up_usage"],
]


@pytest.mark.skipif(connection.vendor != "postgresql", reason="its locks hold all of them up")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    # The one that offloads has nothing to wait for without a storage.
    "command",
    [command for command in COMMANDS if command != ["agent_sessions_offload"]],
    ids=lambda command: command[0],
)
def test_whoever_stops_a_command_is_told_so_in_a_sentence(command):
    if command == ["agent_sessions_scrub"] and "PGDIRECTPORT" in os.environ:
        pytest.skip("a pooler cannot scrub")
    with transaction.atomic(), connection.cursor() as cursor:
        for model in apps.get_app_config("agent_sessions").get_models():
            cursor.execute(f"LOCK TABLE {model._meta.db_table} IN ACCESS EXCLUSIVE MODE")
        process = start("django", *command)
        _wait_until_it_waits(process, cursor)
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)

    stopped = load_command_class("django_agent_sessions", command[0])
    assert isinstance(stopped, StoppableCommand)
    assert process.returncode == INTERRUPTED_STATUS == 130
    assert (out, err.splitlines()) == (
        "",
        [stopped.stopped],
    )


def _wait_until_it_waits(process: Process, cursor) -> None:
    waiting = 0
    while not waiting:
        with contextlib.suppress(TimeoutError):
            process.wait(0.05)
            raise AssertionError(process.communicate()[1])
        cursor.execute(
            "SELECT count(*) FROM pg_locks WHERE NOT granted"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        (waiting,) = cursor.fetchone()


@pytest.mark.process
def test_a_redaction_that_waits_for_its_text_is_stopped_like_any_other():
    process = start("django", "agent_sessions_redact", "talk", "--find-stdin", "--reason", "x")
    # More than a pipe holds: when it is written, the command is reading.
    process.stdin.write("x" * 1_000_000)
    process.stdin.flush()
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)

    assert process.returncode == INTERRUPTED_STATUS
    assert err.startswith("Stopped. Each session is redacted completely ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "moment",
    ["0001-01-01", "0001-01-01T00:00+14:00", "9999-12-31T23:59-14:00", "9999-12-31", "2026-13-01"],
)
def test_a_date_that_no_database_has_purges_nothing(moment):
    audit.record(AuditEvent.Action.READ)

    with pytest.raises(CommandError, match="--before"):
        call_command("agent_sessions_purge_audit", "--before", moment)

    assert AuditEvent.objects.count() == 1


@pytest.mark.parametrize("moment", [date(2020, 1, 31), datetime(2020, 1, 31, 12, tzinfo=UTC)])
def test_a_program_may_give_a_day_or_a_moment_itself(moment):
    audit.record(AuditEvent.Action.READ)
    AuditEvent.objects.bulk_create(
        [AuditEvent(action="read", created_at=datetime(2020, 1, 1, tzinfo=UTC))]
    )

    call_command("agent_sessions_purge_audit", before=moment, stdout=io.StringIO())

    assert AuditEvent.objects.count() == 1


def test_a_text_from_a_program_is_one_and_not_its_letters(store):
    agent = store.agents.open(store.open("talk"))
    store.append(agent, {"role": "user", "content": "her name is Rea"})

    call_command("agent_sessions_redact", "talk", find="Rea", reason="x", stdout=io.StringIO())

    assert [row.message["content"] for row in SessionMessage.objects.all()] == [
        "her name is [REDACTED]"
    ]


def test_a_session_from_a_program_is_one_and_not_those_called_as_its_letters(store):
    for name in "12":
        store.open(name)

    with pytest.raises(CommandError, match="session '12' does not exist"):
        call_command("agent_sessions_export", "jsonl", session="12", reason="x")


@pytest.mark.process
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "command", [["agent_sessions_check"], ["agent_sessions_redact", "talk", "--find", "hello"]]
)
def test_whoever_does_not_read_to_the_end_is_told_what_that_means_without_a_traceback(
    store, command
):
    """``| head`` must not look like a damage, nor hide that not all was done."""
    store.append(store.agents.open(store.open("talk")), {"role": "user", "content": "hello"})
    reason = ["--reason", "x"] if command[0].endswith("_redact") else []

    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as nobody_reads:
        done = _run(*command, *reason, stdout=nobody_reads)

    stopped = load_command_class("django_agent_sessions", command[0])
    assert isinstance(stopped, StoppableCommand)
    assert (done.returncode, done.stderr.decode().splitlines()) == (141, [stopped.stopped])


def _run(*arguments: str, stdout: Any = subprocess.PIPE) -> subprocess.CompletedProcess[bytes]:
    """Runs a command with an output that has no letters but those of ASCII."""
    settings = {"DJANGO_SETTINGS_MODULE": "tests.settings", "PYTHONIOENCODING": "ascii"}
    return subprocess.run(
        [sys.executable, "-m", "django", *arguments],
        cwd=ROOT,
        env={**unmeasured(), **settings},
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=60,
    )


@pytest.mark.process
@pytest.mark.django_db(transaction=True)
def test_a_name_that_the_terminal_has_no_letters_for_ends_no_command(store):
    for name in ("für", "two"):
        agent = store.agents.open(store.open(name))
        store.append(agent, {"role": "user", "content": "hello"})

    done = _run("agent_sessions_redact", "--everybody", "--find=hello", "--reason=x")

    assert (done.returncode, done.stderr) == (0, b"")
    assert b"session f\\xfcr (" in done.stdout
    assert b"2 sessions searched, matches in 2" in done.stdout


@pytest.mark.process
@pytest.mark.django_db(transaction=True)
def test_an_export_is_utf_8_whatever_the_terminal_has_letters_for(store):
    store.append(store.agents.open(store.open("für")), {"role": "user", "content": "漢"})

    done = _run("agent_sessions_export", "jsonl", "--everybody", "--reason=x")

    assert (done.returncode, done.stderr) == (0, b"1 session exported\n")
    [line] = done.stdout.decode().splitlines()
    assert '"für"' in line
    assert '"漢"' in line
