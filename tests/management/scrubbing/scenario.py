"""Secrets that were planted, and then redacted and deleted in every way."""

from __future__ import annotations

import io
import secrets
from datetime import timedelta
from pathlib import Path

from django.core.management import call_command
from django.db import connections
from django.utils import timezone

from django_agent_sessions import audit
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.snapshots import SnapshotStorageStore
from django_agent_sessions.values.records import AgentState
from tests.blobs.messages import document
from tests.governance.redaction.planting import SECRET, plant

from .conftest import ALIAS

SESSIONS = 12


def plant_everywhere() -> None:
    """Plant the secret in each kind of row: short, long, too long for a page, compressible."""
    store = SessionStore()
    for number in range(SESSIONS):
        session = plant(store, session_id=f"s{number}")
        agent = store.agents.open(session, "long")
        store.append_many(
            agent,
            [
                {"role": "user", "content": f"{secrets.token_hex(4000)} {SECRET}"},
                {"role": "user", "content": f"{SECRET} " * 2000},
            ],
        )
        files = store.agents.open(session, "files", dialect="strands")
        store.append(files, {"role": "user", "content": [document(f"{SECRET}\n".encode() * 9000)]})
        store.agents.update(agent, AgentState({"note": f"{secrets.token_hex(200)} {SECRET}"}))
        store.snapshots.take(agent)
        SnapshotStorageStore(store).write_object(
            f"k{number}", f"{SECRET} {secrets.token_hex(9000)}".encode(), session=session
        )
        audit.record(AuditEvent.Action.EXPORTED, reason=SECRET)


def remove_everywhere(*, keep_events: bool = False) -> None:
    """Redact half of it and delete the other half, by each way that deletes."""
    store = SessionStore()
    if keep_events:
        audit.purge(timezone.now() + timedelta(seconds=1))
    for number in range(SESSIONS // 2):
        session = store.get(f"s{number}")
        redact(session.id, Find(SECRET), reason=f"She told us {SECRET}")
    for number in range(SESSIONS // 2, SESSIONS - 2):
        agent = store.agents.find(store.get(f"s{number}"), "long")
        assert agent is not None
        while store.pop(agent):
            pass
        assert store.delete(f"s{number}")
    Session.objects.filter(session_id=f"s{SESSIONS - 2}").delete()
    agent = store.agents.find(store.get(f"s{SESSIONS - 1}"), "openai")
    assert agent is not None
    branch = store.branches.rewind(agent, 0)
    assert branch is not None
    store.branches.delete(agent, branch.number)
    store.clear(agent)
    store.delete(f"s{SESSIONS - 1}")
    if not keep_events:
        audit.purge(timezone.now() + timedelta(seconds=1))


def files_with(directory: Path, text: str = SECRET) -> dict[str, int]:
    """Return how often each file below a directory has a text."""
    found = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file() and (count := path.read_bytes().count(text.encode())):
            found[str(path.relative_to(directory))] = count
    return found


def scrub(*options: str) -> str:
    """Run the command; return what it prints."""
    out = io.StringIO()
    call_command("agent_sessions_scrub", *options, stdout=out)
    return out.getvalue()


def execute(statement: str) -> list:
    """Run SQL on the private server."""
    with connections[ALIAS].cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall()) if cursor.description else []
