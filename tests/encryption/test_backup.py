"""A backup that is restored after an erasure shows the person's words to nobody."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, connections

from django_agent_sessions.exceptions import EncryptionKeyError
from django_agent_sessions.governance.erasure import erase, verify
from django_agent_sessions.models import DataKey, Session
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.snapshots import SnapshotStorageStore
from django_agent_sessions.values.records import AgentState

IS_SQLITE = os.environ.get("TEST_DATABASE", "sqlite") == "sqlite"
pytestmark = [
    pytest.mark.django_db(transaction=True, databases=["default", "keys"]),
    *([] if IS_SQLITE else [pytest.mark.process]),
]


@pytest.fixture(scope="module", autouse=True)
def key_database(tmp_path_factory, django_db_setup, django_db_blocker) -> Iterator[None]:
    """Another database, which has the keys; there before Django prepares a test."""
    connections.settings["keys"] = {
        **connections.settings["default"],
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(tmp_path_factory.mktemp("keys") / "keys.sqlite3"),
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
    }
    try:
        with django_db_blocker.unblock():
            call_command("migrate", database="keys", verbosity=0)
        yield
    finally:
        connections["keys"].close()
        del connections["keys"]
        del connections.settings["keys"]


def take(backup: Path) -> None:
    """Back the database of the sessions up, by its own program."""
    if IS_SQLITE:
        copy_database(name(), backup)
    elif connection.vendor == "postgresql":
        run("pg_dump", "--clean", "--if-exists", f"--file={backup}")
    else:
        run("mariadb-dump", f"--result-file={backup}")


def restore(backup: Path) -> None:
    """Replace the database of the sessions by a backup."""
    connection.close()
    if IS_SQLITE:
        # Not as a file: a connection of another thread may have it open.
        copy_database(backup, name())
    elif connection.vendor == "postgresql":
        run("psql", "--quiet", "--set=ON_ERROR_STOP=1", f"--file={backup}")
    else:
        run("mariadb", f"--execute=source {backup}")


def copy_database(source: str | Path, target: str | Path) -> None:
    with closing(sqlite3.connect(source)) as read, closing(sqlite3.connect(target)) as written:
        read.backup(written)


def name() -> str:
    return str(connection.settings_dict["NAME"])


def run(program: str, *options: str) -> None:
    given = {key: str(value) for key, value in connection.settings_dict.items()}
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    is_postgresql = connection.vendor == "postgresql"
    user = f"--{'username' if is_postgresql else 'user'}={given['USER']}"
    password = {"PGPASSWORD" if is_postgresql else "MYSQL_PWD": given["PASSWORD"]}
    port = os.environ.get("PGDIRECTPORT", given["PORT"]) if is_postgresql else given["PORT"]
    place = [f"--host={given['HOST']}", f"--port={port}"]
    subprocess.run(
        [program, *place, user, *options, given["NAME"]],
        env={**os.environ, **password},
        stdout=subprocess.DEVNULL,
        check=True,
    )


def converse(owner: Any) -> tuple[SessionStore, Any]:
    """Write to each table with content."""
    store = SessionStore(owner=owner) if owner else SessionStore()
    session = store.open(f"s-{owner}")
    agent = store.agents.open(session, data=AgentState({"plan": "secret"}))
    store.append_many(agent, [{"role": "user", "content": f"{n} secret"} for n in range(3)])
    store.snapshots.take(agent)
    store.multi_agents.create(session, "graph", {"task": "secret"})
    SnapshotStorageStore(store).write_object("notes", b"secret", session=session)
    return store, agent


def test_an_erased_person_stays_unreadable_in_a_restored_backup(encrypt, ada, bob, tmp_path):
    codec = encrypt(KEY_DATABASE="keys")
    people = {owner: converse(owner) for owner in (ada, bob, None)}
    before = {owner: store.payloads(agent) for owner, (store, agent) in people.items()}
    take(tmp_path / "backup")

    receipt = erase(ada, reason="Request 31")
    assert not DataKey.objects.using("keys").filter(owner=str(ada.pk)).exists()
    assert verify(receipt.to_json()) == []
    restore(tmp_path / "backup")
    codec.forget()

    assert Session.objects.count() == 3
    store, agent = people[ada]
    for read in (
        lambda: store.payloads(agent),
        lambda: store.messages.list(agent),
        lambda: store.agents.find(store.get(f"s-{ada}"), agent.agent_id),
        lambda: store.multi_agents.find(store.get(f"s-{ada}"), "graph"),
        lambda: SnapshotStorageStore(store).read_object("notes"),
    ):
        with pytest.raises(EncryptionKeyError, match="destroyed"):
            read()
    for owner in (bob, None):
        store, agent = people[owner]
        assert store.payloads(agent) == before[owner]
        assert SnapshotStorageStore(store).read_object("notes") == b"secret"

    # What came back with the backup is erased without being read.
    again = erase(ada, reason="Request 31, after a restored backup")
    assert verify(again.to_json()) == []
    assert set(Session.objects.values_list("owner", flat=True)) == {bob.pk, None}
