"""PostgreSQL is told the types of all parameters that it binds itself, as OPTIONS may ask it to."""

from __future__ import annotations

import io
import os
import zipfile
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, connections
from django.utils import timezone

from django_agent_sessions import usage
from django_agent_sessions.content import codec
from django_agent_sessions.store import SessionStore
from tests.encryption.conftest import encrypt  # noqa: F401 - a fixture
from tests.rest.planted import Planted, plant
from tests.rest.test_every_request import ROUTES, SITE, path_of

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="psycopg is PostgreSQL's driver"),
    pytest.mark.skipif("PGDIRECTPORT" in os.environ, reason="a pooler prepares nothing"),
]

OPTIONS = {"server_side_binding": True, "prepare_threshold": 5}
"""As the documentation has them."""

STREAM = "/events/"
"""Ends the route of what does not end by itself."""


@pytest.fixture(autouse=True)
def bound(db, monkeypatch):
    """Connects with the documented OPTIONS."""
    connections.close_all()
    options = {**connection.settings_dict["OPTIONS"], **OPTIONS}
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", options)
    yield
    connections.close_all()


@pytest.fixture(params=["plain", "encrypted"])
def planted(request, settings, bound, ada) -> Planted:
    """A session with something in each place, and one whose title is made of its words."""
    settings.ROOT_URLCONF = SITE
    settings.AGENT_SESSIONS = {"SHARE_LINKS": True}
    if request.param == "encrypted":
        request.getfixturevalue("encrypt")(METADATA=True)
    planted = plant(ada)
    store = SessionStore(owner=ada)
    agent = store.agents.open(store.open("untitled"), dialect="openai")
    store.append_many(agent, [{"role": "user", "content": f"plantedwords {n}"} for n in range(3)])
    store.messages.pop(agent)
    usage.roll_up(until=timezone.now() + timedelta(minutes=1))
    return planted


def test_every_page_and_list_is_read(planted, ada, root):
    def answer(path: str) -> int:
        query = {} if path.startswith("/admin/") else {"scope": "all"}
        status: int = root.get(path, query).status_code
        return status

    paths = [path_of(route, planted) for route in ROUTES if not route.endswith(STREAM)]
    assert [path for path in paths if answer(path) >= 500] == []
    admin, session = "/admin/agent_sessions", planted.session.pk
    for path in (
        f"{admin}/session/",
        f"{admin}/session/{session}/change/",
        f"{admin}/session/person/{ada.pk}/",
        f"{admin}/auditevent/",
        f"{admin}/usagerollup/",
        "/api/sessions/",
        f"/api/sessions/{session}/",
    ):
        assert answer(path) == 200, path


def test_what_is_found_is_read(planted, root):
    if not codec.is_plain():
        pytest.skip("encrypted words are not searched")
    for path in (
        "/api/sessions/?scope=all&q=plantedtext",
        "/admin/agent_sessions/session/?q=plantedtext",
        f"/admin/agent_sessions/session/{planted.session.pk}/change/?q=plantedtext",
    ):
        assert root.get(path).status_code == 200, path


def test_commands_export_and_check_sessions_and_people(planted, ada, tmp_path):
    def run(name: str, *arguments: Any, **options: Any) -> str:
        out = io.StringIO()
        call_command(f"agent_sessions_{name}", *map(str, arguments), stdout=out, **options)
        return out.getvalue()

    reason = {"reason": "a ticket", "stderr": io.StringIO()}
    run("export", "markdown", tmp_path / "markdown", "--everybody", **reason)
    assert "plantedtext" in "".join(file.read_text() for file in tmp_path.rglob("*.md"))
    assert "plantedwords" in run("export", "jsonl", "--everybody", **reason)
    run("export_person", tmp_path / "ada.zip", owner="ada", reason="a ticket")
    with zipfile.ZipFile(tmp_path / "ada.zip") as archive:
        assert "manifest.json" in archive.namelist()
    run("check")
    run("roll_up_usage", "--rebuild")
