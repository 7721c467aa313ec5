"""A conversation that was rewound, kept and forked, and the pages that show it."""

from __future__ import annotations

from typing import Any

from django.urls import reverse

from django_agent_sessions.models import Session, SessionMessage, Snapshot, StoredObject
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.owners import EVERYBODY

from . import example


def address(session: Session, name: str, *keys: Any, **query: Any) -> str:
    """Where a page of a session is."""
    return reverse(f"admin:agent_sessions_session_{name}", args=[session.pk, *keys], query=query)


def pages_about_time(session: Session | None = None) -> dict[str, str]:
    """Makes the conversation, with names as long as they may get.

    Args:
        session: The example's conversation, if it is there already.

    Returns:
        The addresses of its pages by what they show.
    """
    session = session or example.conversation()
    store = SessionStore(owner=EVERYBODY, namespace=session.namespace)
    record = store.get(session.session_id)
    agent = store.agents.open(record, "support")
    store.branches.rewind(
        agent, 5, name="a-branch-with-a-name-that-somebody-chose-and-made-much-too-long"
    )
    store.append_many(
        agent,
        [
            {"role": "user", "content": [{"text": "A new teapot, please. When will it come?"}]},
            {"role": "assistant", "content": [{"text": "On **Thursday**, with the same carrier."}]},
        ],
    )
    store.branches.create(agent, upto=3)
    snapshot = store.snapshots.take(agent)
    fork = store.sessions.fork(record)
    Snapshot.objects.create(session=session, agent_id=agent.id, length=7)
    StoredObject.objects.create(
        session=session, key="support/stash/" + "0123456789abcdef" * 4, digest="d", size=91_500
    )
    message = SessionMessage.objects.get(agent=agent.id, branch=0, message_id=4).pk
    return {
        "branches": address(session, "branches", agent=agent.id),
        "compare": address(session, "compare", agent=agent.id, left=0, right=1),
        "branch": address(session, "change", agent=agent.id, branch=1),
        "snapshots": address(session, "snapshots"),
        "fork": address(session, "fork", message),
        "rewind": address(session, "rewind", message),
        "delete-branch": address(session, "branch_delete", agent.id, 1),
        "restore-branch": address(session, "branch_restore", agent.id, 1),
        "restore-snapshot": address(session, "snapshot_restore", snapshot.id),
        "forked": reverse("admin:agent_sessions_session_change", args=[fork.id]),
        "redact": reverse("admin:agent_sessions_session_redact", args=[session.pk]),
    }
