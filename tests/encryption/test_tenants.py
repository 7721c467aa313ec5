"""Tenants may have users of the same primary key, whose keys must not be mixed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection, connections, transaction

from django_agent_sessions.governance import erased_keys
from django_agent_sessions.governance.erasure import erase
from django_agent_sessions.models import DataKey, Session, SessionMessage
from django_agent_sessions.store import SessionStore
from tests.encryption.test_encryption import user
from tests.processes import ROOT

pytestmark = pytest.mark.django_db(transaction=True)

postgresql = pytest.mark.skipif(
    connection.vendor != "postgresql" or "PGDIRECTPORT" in os.environ,
    reason="schemas of PostgreSQL, which a pooler may forget",
)


@pytest.fixture
def enter() -> Iterator[Callable[[str], None]]:
    """Sets the schema of the connection, as django-tenants does."""
    attributes: dict[str, Any] = vars(connections["default"])
    yield lambda name: attributes.update(schema_name=name)
    attributes.pop("schema_name", None)


@pytest.fixture
def switch(enter) -> Iterator[Callable[[str], None]]:
    """Changes to the schema of a tenant, ``public`` or ``tenant_b``."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA tenant_b")
        for table in connection.introspection.table_names(cursor):
            if table.startswith(("agent_sessions_", "auth_")):
                cursor.execute(f"CREATE TABLE tenant_b.{table} (LIKE public.{table} INCLUDING ALL)")

    def switch(name: str) -> None:
        enter(name)
        with connection.cursor() as cursor:
            cursor.execute(f"SET search_path TO {name}")

    yield switch
    switch("public")
    with connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA tenant_b CASCADE")


def write(name: str) -> None:
    """Writes as the first user of the present tenant."""
    store = SessionStore(owner=get_user_model().objects.create(pk=1, username=name))
    store.append(store.agents.open(store.open("s")), user(name))


def read() -> list[Any]:
    return [row.message for row in SessionMessage.objects.all()]


def test_each_database_of_a_tenant_has_the_keys_of_its_users(tmp_path, other_process):
    ended = subprocess.run(
        [sys.executable, "-m", "tests.encryption.tenant_databases", str(tmp_path)],
        cwd=ROOT,
        env={key: value for key, value in os.environ.items() if key != "DJANGO_SETTINGS_MODULE"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {"default": [1, ["in default"]], "b": [1, ["in b"]]}


@postgresql
def test_each_schema_of_a_tenant_has_the_keys_of_its_users(encrypted, switch):
    for schema in ("public", "tenant_b"):
        switch(schema)
        write(schema)
    encrypted.forget()
    for schema in ("public", "tenant_b"):
        switch(schema)
        assert (DataKey.objects.count(), read()) == (1, [user(schema)])


def test_a_key_in_memory_is_used_in_its_schema_only(encrypted, enter):
    enter("a")
    key = encrypted.keys.current("1").id
    DataKey.objects.all().delete()  # The table of the other schema is empty.
    enter("b")
    assert encrypted.keys.current("1").id == DataKey.objects.get().pk.hex != key
    enter("a")
    assert encrypted.keys.current("1").id == key


def test_a_new_key_is_used_in_its_schema_only(encrypted, enter):
    with transaction.atomic():
        enter("a")
        key = encrypted.keys.current("1").id
        DataKey.objects.all().delete()
        enter("b")
        other = encrypted.keys.current("1").id
        assert other != key
    assert encrypted.keys.current("1").id == other
    enter("a")
    assert encrypted.keys.current("1").id == key


def test_a_key_in_memory_is_used_in_its_database_only(encrypted, monkeypatch):
    key = encrypted.keys.current("1").id
    DataKey.objects.all().delete()
    monkeypatch.setitem(connection.settings_dict, "NAME", "that of another tenant")
    assert encrypted.keys.current("1").id == DataKey.objects.get().pk.hex != key


@postgresql
def test_an_erasure_keeps_the_keys_that_users_of_all_schemas_share(
    encrypted, switch, monkeypatch, caplog
):
    monkeypatch.setattr(erased_keys, "key_database", lambda using: "keys")
    monkeypatch.setattr(erased_keys, "existing_keys", lambda ids, using: set())
    write("ada")
    keys = [key.hex for key in DataKey.objects.values_list("pk", flat=True)]

    receipt = erase(get_user_model().objects.get(), reason="Request 31")

    assert (receipt.keys, receipt.keys_kept) == ([], keys)
    assert DataKey.objects.count() == 1
    assert not Session.objects.exists()
    assert "sessions in 2 schemas" in caplog.text
