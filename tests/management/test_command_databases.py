"""A command that is sent to a database without our tables says so, whatever it is to do."""

from __future__ import annotations

import copy

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder

from django_agent_sessions.models import Session

from .test_command_options import COMMANDS

EACH_COMMAND = pytest.mark.parametrize(
    "command",
    [*COMMANDS, ["agent_sessions_search_index", "status"]],
    ids=lambda command: command[0],
)


@pytest.fixture
def legacy(django_db_blocker):
    """An alias whose database has no table at all."""
    configuration = copy.deepcopy(connections["default"].settings_dict)
    configuration.update(ENGINE="django.db.backends.sqlite3", NAME=":memory:", OPTIONS={})
    connections.settings["legacy"] = configuration
    # None of the tests' own databases, so that no mark allows it.
    with django_db_blocker.unblock():
        yield "legacy"
    connections["legacy"].close()
    del connections["legacy"]
    del connections.settings["legacy"]


@EACH_COMMAND
def test_a_database_without_our_tables_is_told_with_what_to_do(legacy, command):
    said = "database 'legacy' has no tables of django_agent_sessions: run migrate, or use"
    with pytest.raises(CommandError, match=said):
        call_command(*command, "--database", legacy)


@EACH_COMMAND
def test_a_database_with_older_tables_is_named_with_its_migrations(legacy, command):
    recorder = MigrationRecorder(connections[legacy])
    recorder.ensure_schema()
    recorder.record_applied(Session._meta.app_label, "0000_earlier")
    with connections[legacy].schema_editor() as editor:
        editor.create_model(Session)

    lacks = r"lacks migrations .* 0001_initial, .*Run migrate first"
    with pytest.raises(CommandError, match=lacks):
        call_command(*command, "--database", legacy)
