"""A session with a secret in every place that going back in time adds, and looking for it there."""

from __future__ import annotations

import json
from typing import Any

from django.db import connection, models

from django_agent_sessions.governance.redaction import Block, Find, Span, WholeMessage
from django_agent_sessions.models import (
    AuditEvent,
    Branch,
    Session,
    SessionAgent,
    SessionMessage,
    Snapshot,
    StoredObject,
    StoredPart,
)
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.snapshots import SnapshotStorageStore
from django_agent_sessions.testing import columns_containing, files_containing
from django_agent_sessions.values.ids import new_id
from django_agent_sessions.values.records import AgentRecord, AgentState, SessionRecord

from .planting import SECRET

PREFIX = "session/s/scopes/agent/a"
TABLES = (
    Session, SessionAgent, SessionMessage, Branch, Snapshot, StoredObject, StoredPart, AuditEvent,
)  # fmt: skip
SCOPES: dict[str, Any] = {
    "whole": WholeMessage,
    "block": lambda key: Block(key, ("content", 0)),
    "span": lambda key: Span(key, ("content", 0, "text"), 0, len(SECRET)),
    "find": lambda key: Find(SECRET, message=key),
    "detect": lambda key: Find("planted.*", pattern=True, message=key),
}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"text": text}]}


def document(secret: str) -> dict[str, Any]:
    return {
        "scope": "agent",
        "schema_version": "1.0",
        "created_at": "2026-01-01T00:00:00Z",
        "data": {
            "messages": None,
            "state": {"note": secret, secret: 1},
            "system_prompt": f"You serve {secret}.",
            "conversation_manager_state": {
                "__name__": "SummarizingConversationManager",
                "removed_message_count": 2,
                "summary_message": user(f"They said {secret}"),
            },
        },
        "app_data": {"their": [secret]},
    }


def plant(store: SessionStore, secret: str) -> tuple[SessionRecord, AgentRecord]:
    """Plants it: on three branches, in snapshots, forms of messages, and stored objects."""
    session = store.open("s", title="Trips")
    agent = store.agents.open(
        session, "a", dialect="strands", data=AgentState(state={"note": secret})
    )
    store.append_many(agent, [user(text) for text in ("a", secret, "c", f"d {secret}", "e")])
    store.branches.rewind(agent, 2)
    store.append(agent, user(f"other {secret}"))
    store.branches.create(agent, name="third", upto=2)
    add_snapshot(agent, document(secret), [[0, 1], form(secret, 1), form(f"sum {secret}")])
    SnapshotStorageStore(store).write_object(
        f"{PREFIX}/stash.txt", f"kept {secret}".encode(), session=session
    )
    said = json.dumps(["ä", {"role": "user", "said": secret}], ensure_ascii=False)
    SnapshotStorageStore(store).write_object(f"{PREFIX}/tree.json", said.encode(), session=session)
    SnapshotStorageStore(store).write_object(
        f"{PREFIX}/raw", b"\xff\x00" + secret.encode() + b"\xfe", session=session
    )
    return session, agent


def form(text: str, position: int | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"message": user(text)}
    return found if position is None else {**found, "position": position}


def add_snapshot(
    agent: AgentRecord, content: Any, messages: list[Any], snapshot_id: str | None = None
) -> Snapshot:
    return Snapshot.objects.create(
        session_id=agent.session,
        agent_id=agent.id,
        branch=agent.branch,
        snapshot_id=str(new_id()) if snapshot_id is None else snapshot_id,
        messages=messages,
        length=3,
        document=content,
    )


def found_in_database(text: str) -> list[str]:
    """Where a text is in any column of any table, or in the files of SQLite."""
    return [*columns_containing(text), *columns_containing(text.upper()), *files_containing(text)]


def rows_of(*tables: type[models.Model]) -> list[Any]:
    """All that is in tables, to be compared."""
    found: list[Any] = []
    for table in tables:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table._meta.db_table} ORDER BY id")
            found.append(
                [[bytes(v) if isinstance(v, memoryview) else v for v in r] for r in cursor]
            )
    return found


def epoch_of(session: Any) -> int:
    return Session.objects.get(pk=session).redaction_epoch


def said(store: Any, agent: Any, number: int = 0) -> list[str]:
    return [m["content"][0]["text"] for m in store.payloads(agent.on_branch(number))]


def spot(agent: Any, branch: int, position: int) -> SessionMessage:
    return SessionMessage.objects.get(agent=agent.id, branch=branch, message_id=position)
