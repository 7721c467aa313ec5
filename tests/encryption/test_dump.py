"""No file of an encrypted database, dump or storage has a word of a conversation."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection, connections

from django_agent_sessions.store import SessionStore
from tests.management.scrubbing.conftest import ALIAS, private  # noqa: F401 - a fixture

from .conftest import MASTER
from .planting import Words, everything, plant, words_in

IS_SQLITE = os.environ.get("TEST_DATABASE", "sqlite") == "sqlite"
pytestmark = [
    pytest.mark.django_db(transaction=True),
    *([] if IS_SQLITE else [pytest.mark.process]),
]


@pytest.fixture
def directory(request: pytest.FixtureRequest) -> Iterator[Path]:
    """The directory of a database's files, with what SQLite and servers write by default."""
    if IS_SQLITE:
        request.getfixturevalue("upstream_sqlite")
        yield Path(connection.settings_dict["NAME"]).parent
    else:
        yield request.getfixturevalue("private").directory


@pytest.fixture
def configure(settings, tmp_path):
    """Turns encryption on or off, with files in a bucket."""
    location = {"location": str(tmp_path / "bucket")}
    backend = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": location}
    settings.STORAGES = {**settings.STORAGES, "blobs": backend}

    def configure(**encryption: Any) -> None:
        settings.AGENT_SESSIONS = {
            "BLOB_STORAGE": "blobs",
            "ENCRYPTION": {"KEYS": {"one": MASTER}, "METADATA": True, **encryption},
        }

    return configure


def dump(file: Path) -> Path:
    """Write a dump by the database's own program."""
    if IS_SQLITE:
        with sqlite3.connect(connection.settings_dict["NAME"]) as database:
            file.write_text("\n".join(database.iterdump()))
        database.close()
        return file
    given = {name: str(value) for name, value in connections[ALIAS].settings_dict.items()}
    program = "pg_dump" if connection.vendor == "postgresql" else "mariadb-dump"
    options = [f"--host={given['HOST']}", f"--port={given['PORT']}", given["NAME"]]
    user = f"--{'username' if program == 'pg_dump' else 'user'}={given['USER']}"
    with file.open("wb") as output:
        subprocess.run([program, user, *options], stdout=output, check=True)
    return file


def flush() -> None:
    """Write what a server has in memory to its files."""
    if not IS_SQLITE:
        with connections[ALIAS].cursor() as cursor:
            is_postgresql = connection.vendor == "postgresql"
            cursor.execute(
                "CHECKPOINT" if is_postgresql else "SET GLOBAL innodb_log_checkpoint_now = ON"
            )


def test_no_file_dump_log_or_bucket_has_one_of_200_words(directory, configure, tmp_path):
    configure()
    ada = get_user_model()._default_manager.create_user("ada")
    stores = [SessionStore(), SessionStore(owner=ada)]
    word = Words()
    for store in stores:
        plant(store, word)
    flush()
    # Others were replaced meanwhile.
    readable = everything(stores)
    assert len(readable & set(word.given)) >= 200
    bucket = tmp_path / "bucket"
    assert len([path for path in bucket.rglob("*") if path.is_file()]) >= len(stores)
    assert words_in([directory, dump(tmp_path / "dump.sql"), bucket]) == set()

    # In plain text, the same search finds them.
    configure(DECRYPT_ONLY=True)
    call_command("agent_sessions_encrypt", "decrypt", stdout=StringIO())
    flush()
    assert words_in([directory, dump(tmp_path / "plain.sql")]) >= readable
    assert len(words_in([bucket])) == len(stores)
