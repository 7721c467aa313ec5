"""The threat model is true: what it names exists, and what nothing else tries is tried here."""

from __future__ import annotations

import ast
import functools
import re
import socket
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse

from django_agent_sessions.interchange.markdown import export_markdown
from django_agent_sessions.models import Session
from django_agent_sessions.store import SessionStore
from tests.admin.people import staff

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "SECURITY.md"
PACKAGE = ROOT / "django_agent_sessions"

NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", MODEL.read_text())))

INWARD = "http://169.254.169.254/latest/meta-data/"


def test_every_threat_names_a_test():
    threats = [line for line in MODEL.read_text().splitlines() if line.count("|") == 4]
    rows = [line for line in threats if not re.match(r"\| (threat|asset) |\|-", line)]

    assert len(rows) > 50
    assert [row for row in rows if not re.search(r"`tests/[\w/]+\.py::\w+` \|$", row)] == []


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_every_named_test_exists(path, name):
    assert re.search(rf"^ *(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE)


@functools.cache
def modules() -> list[tuple[str, ast.Module]]:
    return [
        (str(path.relative_to(PACKAGE)), ast.parse(path.read_text()))
        for path in sorted(PACKAGE.rglob("*.py"))
    ]


def imported(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return found


# Over a second: it parses every module.
def test_nothing_here_runs_or_unpickles_what_it_reads():
    runs = {"pickle", "marshal", "shelve", "subprocess", "runpy", "code", "yaml", "ctypes"}
    calls = {"eval", "exec", "compile", "__import__"}
    found = []
    for path, tree in modules():
        # The tests that adapters inherit start writers, and kill them.
        forbidden = runs - {"subprocess"} if path.startswith("testing/") else runs
        found += [(path, name) for name in imported(tree) if name.split(".")[0] in forbidden]
        found += [
            (path, node.func.id)
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in calls
        ]
    assert found == []


# Over a second: it parses every module.
def test_nothing_here_speaks_to_the_network_but_by_databases_and_storages():
    speaks = ("urllib.request", "http.client", "requests", "httpx", "aiohttp", "urllib3", "ftplib")
    found = [
        (path, name)
        for path, tree in modules()
        for name in imported(tree)
        if name.startswith(speaks) or name == "socket"
    ]
    # Who holds a lease is told by the name of the host.
    assert found == [("leases/held_lease.py", "socket")]


def shown() -> list[Any]:
    return [
        {"image": {"format": "png", "source": {"location": {"type": "url", "url": INWARD}}}},
        {"document": {"format": "pdf", "name": "d", "source": {"location": {"uri": INWARD}}}},
        {"text": f"![picture]({INWARD}) <img src='{INWARD}'>"},
    ]


@pytest.mark.django_db
def test_no_address_in_a_message_is_fetched_by_the_server(monkeypatch):
    viewer = staff("viewer", "view_session", "read_transcript", "export")
    store = SessionStore(owner=viewer)
    session = store.open("s")
    strands = store.agents.open(session, "strands", dialect="strands")
    openai = store.agents.open(session, "openai")
    said = [store.append(strands, {"role": "user", "content": shown()})]
    picture = {"type": "input_image", "image_url": INWARD}
    said.append(store.append(openai, {"role": "user", "content": [picture]}))
    client = Client()
    client.force_login(viewer)

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("somebody opened a connection")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    read = [
        client.get(f"/api/sessions/{session.id}/messages/"),
        client.get(reverse("admin:agent_sessions_session_change", args=[session.id])),
        *(client.get(f"/api/messages/{message.id}/") for message in said),
    ]
    exported = "".join(export_markdown(Session.objects.get(pk=session.id)))

    assert [answer.status_code for answer in read] == [200] * len(read)
    assert INWARD in exported
    for answer in read:
        assert f'src="{INWARD}'.encode() not in answer.content


@pytest.mark.django_db
def test_the_description_of_the_api_holds_nothing_of_this_site(client, ada):
    client.force_login(ada)

    said = client.get("/api/schema/").content.decode()

    assert "/sessions/" in said
    database = settings.DATABASES["default"]
    secrets = [settings.SECRET_KEY, str(ROOT), database.get("PASSWORD"), database.get("HOST")]
    assert [secret for secret in secrets if secret and secret in said] == []
