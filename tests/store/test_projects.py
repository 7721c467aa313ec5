"""What a project may have set otherwise: time zones, fixtures, another database."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from django_agent_sessions.models import Session
from django_agent_sessions.store import SessionStore
from tests.processes import ROOT
from tests.strategies import exactly

WITHOUT_TIME_ZONES = """
import os, sys
from datetime import datetime
import django
from django.conf import settings
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
settings.USE_TZ = False
settings.TIME_ZONE = "Asia/Tokyo"
django.setup()
from django_agent_sessions.values.records import NewMessage
from django_agent_sessions.store import SessionStore

store = SessionStore()
session = store.open("without-time-zones")
agent = store.agents.open(session)
said = datetime(2020, 1, 2, 3, 4, 5, 678901)
store.append(agent, NewMessage({"role": "user", "content": "a"}, created_at=said))
store.append_many(agent, [{"role": "user", "content": "b"}] * 3)
store.messages.redact(agent, 1, {"role": "user", "content": "[gone]"})
assert store.messages.find(agent, 0).created_at == said
assert store.get("without-time-zones") in store.sessions.list()
assert store.sessions.list(after=store.get("without-time-zones")) == []
assert session.created_at.tzinfo is None
assert abs((datetime.now() - session.created_at).total_seconds()) < 60
assert store.delete("without-time-zones")
print("no errors or warnings")
"""


@pytest.mark.process
@pytest.mark.django_db(transaction=True)
def test_the_store_works_without_time_zones():
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_TIME_ZONES],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ended.stdout == "no errors or warnings\n", ended.stderr


@pytest.mark.django_db
def test_a_dump_and_a_load_keep_everything(store, session, agent, tmp_path):
    payloads = [
        {"role": "user", "content": "\x00 \ud800 🐇", "z": 1, "a": {"$bytes": "AA=="}},
        {"role": "assistant", "content": None, "raw": b"\x00\xff", "n": 10**400},
        "null",
        None,
    ]
    store.append_many(agent, payloads)
    store.messages.redact(agent, 2, {"b": 1, "a": b""})
    store.multi_agents.create(session, "graph", {"b": b"\x01", "a": "\x00"})
    before = (store.get("session-1"), store.messages.list(agent), store.agents.list(session))
    fixture = tmp_path / "sessions.json"

    # An audit event is still there when it is loaded, and cannot be written over.
    call_command(
        "dumpdata", "agent_sessions", exclude=["agent_sessions.auditevent"], output=str(fixture)
    )
    Session.objects.all().delete()
    call_command("loaddata", str(fixture), verbosity=0)

    after = (store.get("session-1"), store.messages.list(agent), store.agents.list(session))
    assert exactly(_without_times(after)) == exactly(_without_times(before))
    assert exactly(store.multi_agents.find(session, "graph").state) == exactly(
        {"b": b"\x01", "a": "\x00"}
    )


def _without_times(value: object) -> str:
    """JSON fixtures cut times to milliseconds; that is Django's own doing."""
    return re.sub(r"datetime\.datetime\([^()]*(\(.*?\))?[^()]*\)", "…", repr(value))


@pytest.mark.django_db
def test_the_alias_of_the_setting_is_used(settings):
    settings.AGENT_SESSIONS = {"DATABASE": "default"}
    assert SessionStore().using == "default"
    assert SessionStore(using="default").using == "default"

    settings.AGENT_SESSIONS = {"DATABASE": "archive"}
    assert SessionStore().using == "archive"
    assert SessionStore(using="default").open("s").session_id == "s"


@pytest.mark.django_db
def test_a_router_decides_where_no_setting_does(settings):
    class Router:
        def db_for_write(self, model, **hints):
            return "routed" if model._meta.app_label == "agent_sessions" else None

    settings.AGENT_SESSIONS = {}
    settings.DATABASE_ROUTERS = [Router()]

    assert SessionStore().using == "routed"


@pytest.mark.django_db(transaction=True)
def test_a_database_that_a_router_keeps_our_models_out_of_is_migrated(settings):
    class ByModel:
        def allow_migrate(self, db, app_label, model_name=None, **hints):
            return None if model_name is None else False

    settings.DATABASE_ROUTERS = [ByModel()]
    loader = MigrationLoader(connection)
    before = connection.introspection.table_names()

    # Whatever they did, the database has already, and would refuse.
    for key in sorted(key for key in loader.disk_migrations if key[0] == "agent_sessions"):
        with connection.schema_editor() as editor:
            loader.get_migration(*key).apply(loader.project_state(key, at_end=False), editor)

    assert connection.introspection.table_names() == before
