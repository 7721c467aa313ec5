"""A session under legal hold that has something in every table."""

from __future__ import annotations

from django_agent_sessions.governance import legal_hold
from django_agent_sessions.models import (
    Branch,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
    Snapshot,
    StoredObject,
)
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.snapshots import SnapshotStorageStore
from django_agent_sessions.values.records import AgentState, SessionRecord

TABLES = (Session, SessionAgent, SessionMessage, SessionMultiAgent, Branch, Snapshot, StoredObject)


def hold_everything(store: SessionStore) -> SessionRecord:
    """Makes a session with content in every table, and puts it under legal hold."""
    session = store.open("held", title="Planned", metadata={"case": 1})
    agent = store.agents.open(session, data=AgentState(state={"mood": "calm"}))
    store.append_many(agent, [{"role": "user", "content": text} for text in "ab"])
    store.branches.create(agent, name="draft")
    store.multi_agents.create(session, "graph", {"id": "graph", "step": 1})
    store.snapshots.take(agent)
    SnapshotStorageStore(store).write_object("notes", b"written", session=session)
    legal_hold.hold(session.id, reason="case 1", actor="counsel")
    return session
