"""The source is a database that agentic-django 0.5.1 itself wrote."""

from __future__ import annotations

import asyncio
import io
import json
from datetime import UTC
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connections

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.interchange import import_sessions
from django_agent_sessions.interchange.agentic_django import AgenticDjangoSource
from django_agent_sessions.models import Session, SessionMessage

from .written import copy_committed

pytestmark = pytest.mark.django_db(transaction=True)


class StoppedError(Exception):
    """What stops an import."""


@pytest.fixture
def items(tmp_path) -> Any:
    """What agentic-django reads from its database, which has the alias ``old``."""
    path, items = copy_committed("agentic_django", tmp_path)
    connections.databases["old"] = {
        **connections.databases["default"],
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(path),
        "OPTIONS": {},
    }
    # Before a test's wall around databases that it does not name is asked.
    connections["old"].connect()
    yield items
    connections["old"].close()
    del connections["old"]
    del connections.databases["old"]


@pytest.fixture
def people(db) -> dict[str, User]:
    """Users of the same names, each with the key that the other one has in the source."""
    return {
        "bob": User.objects.create_user("bob", id=1),
        "ada": User.objects.create_user("ada", id=2),
    }


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("agent_sessions_import", "agentic-django", "old", *arguments, stdout=out)
    return out.getvalue()


def change(statement: str, *parameters: Any) -> None:
    with connections["old"].cursor() as cursor:
        cursor.execute(statement, parameters)


def owned() -> dict[tuple[str, str], str | None]:
    rows = Session.objects.values_list("scope", "session_id", "owner__username")
    return {(scope, name): owner for scope, name, owner in rows}


def payloads(**of: str) -> list[Any]:
    found = SessionMessage.objects.filter(
        **{f"session__{name}": value for name, value in of.items()}
    )
    return [message.message for message in found.order_by("message_id")]


def test_each_owner_has_what_the_package_reads(items, people):
    printed = run("--keep-owners")

    assert printed == (
        "16 messages written; sessions: 3 new, 0 continued, 0 already imported, 0 skipped\n"
    )
    assert owned() == {("2", "support"): "ada", ("1", "support"): "bob", ("1", "billing"): "bob"}
    for name, expected in items.items():
        owner, key = name.split("/")
        session = DjangoSession(key, owner=people[owner], scope=str(people[owner].pk))
        assert asyncio.run(session.get_items()) == expected != []


def test_times_and_metadata_are_those_of_the_rows(items):
    run()
    with connections["old"].cursor() as cursor:
        cursor.execute(
            "SELECT created_at, updated_at FROM agentic_django_agentsession "
            "WHERE session_key = 'billing'"
        )
        made, changed = cursor.fetchone()
    session = Session.objects.get(session_id="billing")

    times = [time.replace(tzinfo=UTC) for time in (made, changed)]
    assert [session.created_at, session.updated_at] == times
    assert session.metadata == {"team": "blue"}


def test_without_an_option_no_user_owns_anything(items, people):
    run()

    assert set(owned().values()) == {None}


def test_a_session_whose_owner_is_not_here_is_left_out_and_comes_in_later(items, people):
    people["bob"].delete()
    out = io.StringIO()

    with pytest.raises(CommandError, match="2 items could not be imported"):
        call_command("agent_sessions_import", "agentic-django", "old", "--keep-owners", stdout=out)

    assert "session 'support': user 'bob' does not exist" in out.getvalue()
    assert owned() == {("2", "support"): "ada"}
    User.objects.create_user("bob")
    assert "sessions: 2 new, 0 continued, 1 already imported, 0 skipped" in run("--keep-owners")


def test_a_row_without_its_user_gives_the_session_to_nobody(items, people):
    change("PRAGMA foreign_keys = OFF")
    change("UPDATE agentic_django_agentsession SET owner_id = 77 WHERE session_key = 'billing'")

    with pytest.raises(CommandError, match="1 item could not be imported"):
        run("--keep-owners")

    assert not Session.objects.filter(session_id="billing").exists()


def test_a_dry_run_says_the_same_and_writes_nothing(items, people):
    assert run("--keep-owners", "--dry-run").startswith("16 messages would be written; sessions: 3")

    assert not Session.objects.exists()


def test_an_import_that_is_stopped_anywhere_goes_on_without_doubling(items):
    def stop_after(number: int) -> Any:
        def progress(report: Any) -> None:
            if report.messages >= number:
                raise StoppedError

        return progress

    for number in range(1, 4):
        with pytest.raises(StoppedError):
            import_sessions(AgenticDjangoSource("old"), batch=3, progress=stop_after(number))
    report = import_sessions(AgenticDjangoSource("old"))
    again = import_sessions(AgenticDjangoSource("old"))

    assert report.errors == again.errors == again.messages == 0
    assert again.unchanged == 3
    assert payloads(scope="1", session_id="support") == items["ada/support"]
    assert payloads(session_id="billing") == items["bob/billing"]
    assert SessionMessage.objects.count() == 16


def test_the_order_is_the_sequence_and_not_the_key(items):
    change("UPDATE agentic_django_agentsessionitem SET sequence = 99 WHERE id = 1")

    run()

    first, *others = items["ada/support"]
    assert payloads(scope="1") == [*others, first]


def test_rows_that_hold_no_object_are_named_by_key_without_content(items):
    table = "agentic_django_agentsessionitem"
    change("PRAGMA ignore_check_constraints = ON")
    change(f"UPDATE {table} SET payload = %s WHERE id = 2", '"planted secret"')
    change(f"UPDATE {table} SET payload = %s WHERE id = 3", "planted secret")
    change("UPDATE agentic_django_agentsession SET metadata = %s", "[1]")
    out = io.StringIO()

    with pytest.raises(CommandError, match="5 items could not be imported"):
        call_command("agent_sessions_import", "agentic-django", "old", stdout=out)

    assert f"{table} id=2: it is JSON, but not an object" in out.getvalue()
    assert f"{table} id=3: it is not JSON" in out.getvalue()
    assert "metadata: it is JSON, but not an object" in out.getvalue()
    assert "planted" not in out.getvalue()
    kept = items["ada/support"]
    assert payloads(scope="1") == [kept[0], *kept[3:]]


def test_a_database_without_its_tables_is_refused(db):
    with pytest.raises(ConfigurationError, match="no table 'agentic_django_agentsession'"):
        AgenticDjangoSource().count()
    with pytest.raises(ConfigurationError, match="pass the alias of the database of agentic-djan"):
        next(AgenticDjangoSource().sessions())


def test_owners_are_kept_only_from_sources_that_name_them():
    with pytest.raises(CommandError, match="openai-sqlite does not name owners: use --owner, "):
        call_command("agent_sessions_import", "openai-sqlite", "x.db", "--keep-owners")
    with pytest.raises(CommandError, match="not allowed with argument"):
        call_command("agent_sessions_import", "agentic-django", "--keep-owners", "--owner=ada")


def export_of(tmp_path, owner: Any) -> str:
    """The name of a file of JSON Lines, which may come from anywhere."""
    file = tmp_path / "sessions.jsonl"
    session = {"session_id": "s", "owner": owner}
    line = {"format": "django-agent-sessions", "version": 1, "session": session}
    file.write_text(json.dumps({**line, "agents": [], "multi_agents": []}))
    return str(file)


@pytest.mark.parametrize(
    ("owner", "reason"),
    [
        ("ada", "the source does not name a user"),
        ({"username": 5}, "the source does not name a user"),
        # Keys are not the same in another project.
        ({"id": "2"}, "the source does not name a user"),
        ({"username": "eve", "id": "2"}, "user 'eve' does not exist"),
        ({"username": "ADA"}, "user 'ADA' does not exist"),
        ({"username": "a\0"}, "does not exist"),
        ({"username": "\ud800"}, "does not exist"),
        ({"username": ""}, "user '' does not exist"),
    ],
)
def test_an_owner_in_a_file_is_one_that_exists_by_name_or_the_session_is_left_out(
    tmp_path, people, owner, reason
):
    out = io.StringIO()

    with pytest.raises(CommandError, match="1 item could not be imported"):
        call_command(
            "agent_sessions_import",
            "jsonl",
            export_of(tmp_path, owner),
            "--keep-owners",
            stdout=out,
        )

    assert reason in out.getvalue()
    assert not Session.objects.exists()


@pytest.mark.parametrize("owner", ["ada", None])
def test_an_owner_in_a_file_is_kept_if_the_command_says_so(tmp_path, people, owner):
    named = owner and {"id": "1", "username": owner}

    call_command("agent_sessions_import", "jsonl", export_of(tmp_path, named), "--keep-owners")

    assert owned() == {("", "s"): owner}
