"""Numbers and keys that JSON lacks and the SDKs' own stores take: kept, and never shown as such."""

from __future__ import annotations

import asyncio
import json
import math
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from agents import SQLiteSession
from django.core.files.storage import FileSystemStorage
from django.urls import reverse
from rest_framework.test import APIClient
from strands import Agent, ToolContext, tool
from strands.multiagent.base import MultiAgentBase
from strands.session import FileSessionManager, SnapshotSessionManager
from strands.storage import LocalFileStorage

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.adapters.strands import DjangoSessionManager, DjangoStorage
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.interchange import JsonLines, export_sessions, import_sessions
from django_agent_sessions.interchange.openai_sources import OpenAISQLiteSource
from django_agent_sessions.interchange.strands_export import export_strands_files
from django_agent_sessions.interchange.strands_files import StrandsFiles
from django_agent_sessions.interchange.strands_layout import Layout
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.rest.chat.ai_sdk import page_of
from django_agent_sessions.store import SessionStore
from django_agent_sessions.testing import columns_containing
from tests.strategies import exactly

from .strands.scripted import ScriptedModel, call

pytestmark = pytest.mark.django_db(transaction=True)

ODD: dict[Any, Any] = {
    "mean": math.nan,
    "range": [-math.inf, math.inf],
    "counts": {1: "one", 2.5: "some", None: "none", False: "no", math.inf: "all"},
    "words": "swordfish",
}


@tool(context=True)
def figures(tool_context: ToolContext) -> dict[str, Any]:
    """Look up figures."""
    tool_context.agent.state.set("figures", ODD)
    return {"status": "success", "content": [{"json": ODD}]}


def agent(manager: Any, *steps: Any) -> Agent:
    return Agent(
        model=ScriptedModel(steps),
        tools=[figures],
        agent_id="a",
        session_manager=manager,
        callback_handler=None,
    )


def converse(manager: Any) -> Agent:
    asked = agent(manager, {**call("figures"), "toolUseId": "t1"}, "Fine.")
    assert str(asked("Look")).strip() == "Fine."
    return asked


def contents(restored: Agent) -> str:
    return exactly([(m["role"], m["content"]) for m in restored.messages])


def valid(text: str | bytes) -> Any:
    """Parses JSON as a browser does."""
    return json.loads(text, parse_constant=pytest.fail)


@pytest.fixture
def files(tmp_path: Path) -> str:
    return str(tmp_path / "sessions")


def test_strands_restores_what_its_file_manager_restores(files):
    converse(FileSessionManager("s", files))
    converse(DjangoSessionManager("s"))
    theirs, ours = agent(FileSessionManager("s", files)), agent(DjangoSessionManager("s"))

    assert contents(ours) == contents(theirs)
    assert exactly(ours.state.get()) == exactly(theirs.state.get())
    assert "nan" in contents(ours)
    assert str(ours("And now?")).strip() == "You said: And now?"
    assert contents(agent(DjangoSessionManager("s"))) == contents(ours)


class Odd(MultiAgentBase):
    """An orchestrator whose state is anything."""

    id = "odd"

    def __init__(self) -> None:
        self.kept: Any = {}

    def serialize_state(self) -> dict[str, Any]:
        return {"type": "odd", "kept": self.kept}

    def deserialize_state(self, payload: dict[str, Any]) -> None:
        self.kept = payload["kept"]

    async def invoke_async(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def test_the_state_of_an_orchestrator_is_what_files_have(files):
    found = []
    for make in (lambda: FileSessionManager("s", files), lambda: DjangoSessionManager("s")):
        first, later = Odd(), Odd()
        manager = make()
        manager.initialize_multi_agent(first)
        first.kept = ODD
        manager.sync_multi_agent(first)
        make().initialize_multi_agent(later)
        found.append(exactly(later.kept))
        # Nothing has changed, although NaN differs from itself.
        manager.sync_multi_agent(first)

    assert found[1] == found[0]
    assert "nan" in found[0]


def test_snapshots_restore_what_they_restore_from_files(files):
    theirs, ours = LocalFileStorage(files), DjangoStorage()
    for storage in (theirs, ours):
        converse(SnapshotSessionManager("s", storage=storage))

    restored = [agent(SnapshotSessionManager("s", storage=one)) for one in (theirs, ours)]

    assert contents(restored[1]) == contents(restored[0])
    assert exactly(restored[1].state.get()) == exactly(restored[0].state.get())


def test_openai_restores_what_its_own_session_restores(tmp_path):
    items: list[Any] = [
        {"role": "user", "content": "Look"},
        {"type": "function_call_output", "call_id": "c", "output": "x", "figures": ODD},
    ]

    async def both() -> list[str]:
        found = []
        for session in (SQLiteSession("s", tmp_path / "sdk.db"), DjangoSession("s")):
            await session.add_items(items)
            found.append(exactly(await session.get_items()))
        return [*found, exactly(await DjangoSession("s").pop_item())]

    theirs, ours, popped = asyncio.run(both())
    assert ours == theirs
    assert popped == exactly(json.loads(json.dumps(items[1])))


def test_files_go_in_and_out(files, tmp_path):
    expected = contents(converse(FileSessionManager("s", files)))
    expected = contents(agent(FileSessionManager("s", files)))

    report = import_sessions(StrandsFiles(FileSystemStorage(files)))
    assert (report.made, report.skips) == (1, 0)
    assert contents(agent(DjangoSessionManager("s"))) == expected
    lines = "".join(export_sessions(Session.objects.all()))
    out = Layout(FileSystemStorage(tmp_path / "out"))
    assert list(export_strands_files(Session.objects.get(), out)) == []
    Session.objects.all().delete()

    assert contents(agent(FileSessionManager("s", str(tmp_path / "out")))) == expected
    for line in lines.splitlines():
        valid(line)
    (tmp_path / "s.jsonl").write_text(lines)
    assert import_sessions(JsonLines(tmp_path / "s.jsonl")).skips == 0
    assert contents(agent(DjangoSessionManager("s"))) == expected


def test_the_sdk_s_database_goes_in(tmp_path):
    file = tmp_path / "sdk.db"
    session = SQLiteSession("s", file)
    asyncio.run(session.add_items([{"role": "user", "content": "Look", "figures": ODD}]))  # type: ignore[list-item] # any JSON
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(
            "INSERT INTO agent_messages (session_id, message_data) VALUES ('s', '{\"n\": 1e999}')"
        )
    expected = exactly(asyncio.run(session.get_items()))

    assert import_sessions(OpenAISQLiteSource(file)).skips == 0

    assert exactly(asyncio.run(DjangoSession("s").get_items())) == expected


def test_a_browser_gets_valid_json_everywhere(admin_user, admin_client):
    converse(DjangoSessionManager("s", owner=admin_user))
    session = Session.objects.get()
    api = APIClient()
    api.force_authenticate(admin_user)
    base, result = f"/api/sessions/{session.pk}/", SessionMessage.objects.get(message_id=2)

    for url in (
        f"{base}messages/",
        f"{base}messages/?raw=true",
        f"/api/messages/{result.pk}/?raw=true",
        f"{base}agents/",
        f"{base}agents/{result.agent_id}/",
        f"{base}export/?as=jsonl",
        f"{base}timeline/",
    ):
        answer: Any = api.get(url)
        if answer.status_code == 404:
            continue
        assert answer.status_code == 200, url
        body = b"".join(answer.streaming_content) if answer.streaming else answer.content
        for line in body.splitlines() if "jsonl" in url else [body]:
            valid(line)
    found = valid(json.dumps(page_of(session).messages))
    output = next(part["output"] for part in found[1]["parts"] if "output" in part)
    assert output["mean"] is None
    assert output["counts"] == {
        "1": "one",
        "2.5": "some",
        "null": "none",
        "false": "no",
        "Infinity": "all",
    }
    raw = api.get(f"/api/messages/{result.pk}/?raw=true").json()["raw"]
    assert raw["content"][0]["toolResult"]["content"][0]["json"]["mean"] == {"$float": "NaN"}
    for page in (
        reverse("admin:agent_sessions_session_change", args=[session.pk]),
        reverse("admin:agent_sessions_session_changelist"),
    ):
        assert admin_client.get(page).status_code == 200


def test_a_redaction_finds_words_beside_them_and_in_numbers_that_are_keys():
    live = agent(DjangoSessionManager("s"), {**call("figures"), "toolUseId": "t1"}, "Fine.")
    live("Look")

    redact(Session.objects.get().pk, Find("swordfish"), reason="A request")
    live("Once more, without")

    assert columns_containing("swordfish") == []
    assert "swordfish" not in str(live.messages) + str(live.state.get())
    assert "one" in str(live.state.get())
    assert "You said" in contents(agent(DjangoSessionManager("s")))


def test_a_number_that_is_a_key_is_masked_when_it_is_written(settings):
    settings.AGENT_SESSIONS = {"REDACT_ON_WRITE": ["card"]}
    store = SessionStore()
    agent = store.agents.open(store.open("s"))

    store.append(agent, {"role": "user", "content": {4111111111111111: math.nan}})

    assert columns_containing("4111111111111111") == []
    assert "[REDACTED:CARD]" in str(store.payloads(agent))
