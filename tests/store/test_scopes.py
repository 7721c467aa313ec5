"""Two scopes of a namespace have the same session ids, and their sessions do not meet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from agents import TResponseInputItem
from strands import Agent
from strands.types.session import Session as StrandsSession
from strands.types.session import SessionType

from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession, DjangoSession
from django_agent_sessions.adapters.strands import (
    DjangoSessionManager,
    DjangoSessionRepository,
    DjangoStorage,
)
from django_agent_sessions.exceptions import InvalidIdError
from django_agent_sessions.interchange import JsonLines, export_sessions, import_sessions
from django_agent_sessions.models import Session
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.ids import SessionKey
from tests.adapters.strands.scripted import ScriptedModel

pytestmark = pytest.mark.django_db(transaction=True)

SCOPES = ("", "ada", "bob")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def fill() -> None:
    for scope in SCOPES:
        store = SessionStore(scope=scope)
        store.append(store.agents.open(store.open("s1", title=f"of {scope}")), user(f"by {scope}"))


def test_a_store_reaches_its_own_scope_only():
    fill()

    assert Session.objects.count() == 3
    for scope in SCOPES:
        store = SessionStore(scope=scope)
        session = store.get("s1")
        assert session.key == SessionKey("", scope, "s1")
        assert store.payloads(store.agents.open(session)) == [user(f"by {scope}")]
        assert [listed.title for listed in store.sessions.list()] == [f"of {scope}"]
        found = store.sessions.find_with_agent("s1", "default")
        assert found is not None
        assert found[0].id == session.id
    fork = SessionStore(scope="ada").sessions.fork(SessionStore(scope="ada").get("s1"))
    assert fork.scope == "ada"
    assert SessionStore(scope="bob").delete("s1")
    assert [row.scope for row in Session.objects.filter(session_id="s1").order_by("scope")] == [
        "",
        "ada",
    ]


@pytest.mark.parametrize("scope", [".", " ", "a\0b", "x" * 129])
def test_a_scope_is_a_short_id_or_empty(scope):
    with pytest.raises(InvalidIdError, match="scope"):
        SessionStore(scope=scope)


def test_the_longest_key_fits_the_index():
    letter = "\U0001f600"
    store = SessionStore(namespace=letter * 255, scope=letter * 128)

    assert store.open(letter * 255) == store.get(letter * 255)


def strands_manager(scope: str) -> list[Any]:
    agent = Agent(
        model=ScriptedModel(),
        agent_id="default",
        session_manager=DjangoSessionManager("s1", scope=scope),
        callback_handler=None,
    )
    agent(f"by {scope}")
    return [message["content"][0].get("text") for message in agent.messages]


def strands_repository(scope: str) -> Any:
    repository = DjangoSessionRepository(scope=scope)
    return repository.create_session(StrandsSession("s1", SessionType.AGENT)).session_id


def strands_storage(scope: str) -> Any:
    storage = DjangoStorage(scope=scope)
    key = "session/s1/scopes/agent/default/snapshots/snapshot_latest.json"
    asyncio.run(storage.write(key, f'{{"by": "{scope}"}}'.encode()))
    assert asyncio.run(storage.list()) == [key]
    return asyncio.run(storage.read(key))


def openai(kind: type[DjangoSession], scope: str) -> Any:
    session = kind("s1", scope=scope)
    item: TResponseInputItem = {"role": "user", "content": f"by {scope}"}
    asyncio.run(session.add_items([item]))
    return asyncio.run(session.get_items())


ADAPTERS: dict[str, Callable[[str], Any]] = {
    "DjangoSessionManager": strands_manager,
    "DjangoSessionRepository": strands_repository,
    "DjangoStorage": strands_storage,
    "DjangoSession": lambda scope: openai(DjangoSession, scope),
    "AdvancedDjangoSession": lambda scope: openai(AdvancedDjangoSession, scope),
}


@pytest.mark.parametrize("name", ADAPTERS)
def test_each_adapter_has_a_session_of_the_same_id_in_each_scope(name):
    results = [ADAPTERS[name](scope) for scope in SCOPES]

    if name == "DjangoSessionManager":
        assert [texts[0] for texts in results] == [f"by {scope}" for scope in SCOPES]
    elif name != "DjangoSessionRepository":
        assert len({str(result) for result in results}) == len(SCOPES)
    assert sorted(Session.objects.values_list("scope", "session_id")) == [
        (scope, "s1") for scope in SCOPES
    ]


def test_the_admin_lists_all_and_names_the_scope(root):
    fill()
    session = SessionStore(scope="ada").get("s1")

    page = root.get("/admin/agent_sessions/session/", {"q": "s1"}).content.decode()
    assert all(f"of {scope}" in page for scope in SCOPES)
    page = root.get(f"/admin/agent_sessions/session/{session.id}/change/").content.decode()
    assert "Scope" in page
    assert "by ada" in page
    assert "by bob" not in page


def test_an_export_carries_the_scope(tmp_path):
    fill()
    path = tmp_path / "sessions.jsonl"
    path.write_text("".join(export_sessions(Session.objects.order_by("pk"))))

    report = import_sessions(JsonLines(path), namespace="copies")

    assert report.made == 3
    for scope in SCOPES:
        store = SessionStore(namespace="copies", scope=scope)
        assert store.payloads(store.agents.open(store.get("s1"))) == [user(f"by {scope}")]
    report = import_sessions(JsonLines(path), namespace="merged", scope="x")
    assert (report.made, report.left_out) == (1, 2)
