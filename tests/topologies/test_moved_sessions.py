"""Existing sessions are moved to a database of their own as the page of the settings says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from tests.processes import ROOT

PAGE = ROOT / "docs" / "reference" / "settings.md"
SETTINGS = """
import os
from pathlib import Path
SECRET_KEY, USE_TZ = "moved", True
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django_agent_sessions"]
DATABASES = {
    alias: {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": Path(__file__).with_name(f"{alias}.sqlite3"),
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
    }
    for alias in ("default", "agents")
}
if "MOVED" in os.environ:
    DATABASE_ROUTERS = ["django_agent_sessions.db.routers.SessionsRouter"]
    AGENT_SESSIONS = {"DATABASE": "agents"}
"""
WRITE = """
import django
django.setup()
from django.contrib.auth.models import User
from django_agent_sessions import SessionStore
from django_agent_sessions.governance import sharing
from django_agent_sessions.governance.legal_hold import hold
from django_agent_sessions.governance.redaction import Find, redact
ada, bob = User.objects.create_user("ada"), User.objects.create_user("bob")
store = SessionStore(owner=ada)
session = store.create("s", title="Trip")
agent = store.agents.open(session, dialect="openai")
store.append(agent, {"role": "user", "content": "The password is watermelon4242."})
redact(session, Find("watermelon4242"), reason="a password", actor=ada)
sharing.add_participant(session, bob, "reader", actor=ada)
hold(session, reason="a case", actor=ada)
"""
READ = """
import json, sys
import django
django.setup()
from django.apps import apps
from django.core import serializers
models = apps.get_app_config("agent_sessions").get_models()
rows = (row for model in models for row in model._base_manager.using(sys.argv[1]).order_by("pk"))
print(json.dumps(json.loads(serializers.serialize("json", rows))))
"""


@pytest.mark.process
def test_every_row_is_moved_and_the_check_warns_until_the_old_ones_are_dropped(tmp_path):
    (tmp_path / "moved_settings.py").write_text(SETTINGS)
    dump, load = re.findall(
        r"^\$ python manage.py ((?:dumpdata|loaddata) .*?) +#", PAGE.read_text(), re.M
    )

    def run(*arguments: str, moved: bool) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "moved_settings",
            "PYTHONPATH": f"{tmp_path}:{ROOT}",
            **({"MOVED": "1"} if moved else {}),
        }
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )

    def manage(command: str, *, moved: bool) -> str:
        ended = run("-m", "django", *command.split(), moved=moved)
        return ended.stdout + ended.stderr

    def rows(alias: str) -> list[object]:
        found: list[object] = json.loads(run("-c", READ, alias, moved=False).stdout)
        return found

    manage("migrate", moved=False)
    run("-c", WRITE, moved=False)
    before = rows("default")
    kinds = {row["model"].partition(".")[2] for row in before if isinstance(row, dict)}
    assert {"session", "auditevent", "participant", "redactedoriginal"} <= kinds

    manage(dump, moved=False)
    assert "agent_sessions.W024" in manage("migrate", moved=True)
    manage("migrate --database agents", moved=True)
    manage(load, moved=True)
    assert rows("agents") == before

    manage("migrate agent_sessions zero", moved=False)
    assert "agent_sessions.W024" not in manage("check --database default", moved=True)
    assert rows("agents") == before
