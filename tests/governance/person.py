"""A person with everything that the tables hold, each with words of its own; and somebody else."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from django_agent_sessions import audit
from django_agent_sessions.governance import reviews
from django_agent_sessions.models import (
    AuditEvent,
    MessageFeedback,
    Participant,
    Review,
    Session,
    SessionMessage,
    ShareLink,
    UsageRollup,
)
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.snapshots import SnapshotStorageStore
from django_agent_sessions.values.owners import EVERYBODY
from django_agent_sessions.values.records import AgentRecord, AgentState, SessionRecord

WORD = "zanzibarine"
"""Begins each of the person's words."""

OTHERS = "quixotical"
"""Begins each word of others."""

REASON = "becausification"
"""What the person wrote as a reason, which stays in the audit trail."""

BINARY = f"{WORD}-in-a-file ".encode() * 1000


def message(*words: str, binary: bytes = b"") -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"text": word} for word in words]
    if binary:
        content.append({"image": {"format": "png", "source": {"bytes": binary}}})
    return {"role": "user", "content": content}


def fill(person: Any, other: Any, number: int = 0) -> tuple[SessionRecord, SessionRecord]:
    """Make a session of a person with all that can belong to it, and a fork that another owns."""
    word = f"{WORD}-{number}"
    store = SessionStore(owner=person)
    session = store.open(f"{word}-id", title=f"{word}-title", metadata={"note": f"{word}-metadata"})
    agent = store.agents.open(session, dialect="strands")
    binary = BINARY + str(number).encode()
    store.append_many(agent, [message(f"{word}-text{n}") for n in range(3)])
    store.append(agent, message(f"{word}-picture", binary=binary))
    store.agents.update(
        agent, AgentState({"app": f"{word}-state"}, {"m": f"{word}-manager"}, {"i": f"{word}-sdk"})
    )
    store.branches.create(agent, name=f"{word}-branch")
    store.snapshots.take(agent)
    store.multi_agents.create(session, "graph", {"node": f"{word}-graph"})
    fork = _fork(session, agent, other, number)
    audit.record(AuditEvent.Action.READ, session=session.id, actor=other, reason=f"{OTHERS}-look")
    return session, fork


def _fork(session: SessionRecord, agent: AgentRecord, other: Any, number: int) -> SessionRecord:
    fork = SessionStore(owner=EVERYBODY).sessions.fork(session)
    Session.objects.filter(pk=fork.id).update(owner=other)
    others = SessionStore(owner=other)
    theirs = others.agents.open(fork.id, dialect="strands")
    others.append(theirs, message(f"{OTHERS}-{number}-words"))
    return fork


def fill_others(person: Any, other: Any, fork: SessionRecord) -> None:
    """Make what belongs to a person beside sessions, and a session of somebody else."""
    row = SessionMessage.objects.filter(session=fork.id).order_by("-message_id")[0]
    MessageFeedback.objects.create(
        session_id=fork.id, message=row, user=str(person.pk), value=1, comment=f"{WORD}-comment"
    )
    # Staff who review both conversations: one wrote about the person, and the person about another.
    for reviewed in (Session.objects.filter(owner=person).first(), row.session):
        assert reviewed is not None
        reviews.add_note(reviewed.pk, f"{WORD}-note", author=other)
        reviews.set_labels(reviewed.pk, [f"{WORD}-label"], actor=other)
    Participant.objects.create(session_id=fork.id, user=person, role="reader")
    Participant.objects.create(
        session_id=fork.id, user=other, role="reader", added_by=str(person.pk)
    )
    ShareLink.objects.create(
        session_id=fork.id,
        token_hash="0" * 64,
        expires_at=timezone.now(),
        created_by=str(person.pk),
    )
    objects = SnapshotStorageStore(SessionStore(owner=person))
    objects.write_object(f"{WORD}-key", f"{WORD}-object".encode())
    UsageRollup.objects.create(dimension="owner", period="2026-01-01", key=str(person.pk))
    name = person.get_username()
    audit.record(AuditEvent.Action.READ, actor=person, reason=REASON)
    audit.record(
        AuditEvent.Action.SEARCHED,
        actor=other,
        reason=f"{OTHERS}-reason for {name}",
        details={"owner": person.pk, "names": [f"all of {name}"]},
    )
    others = SessionStore(owner=other)
    theirs = others.open(f"{OTHERS}-id", title=f"{OTHERS}-title")
    others.append(others.agents.open(theirs, dialect="strands"), message(f"{OTHERS}-text"))
    reviews.add_note(theirs.id, f"{OTHERS}-note", author=person)
    Review.objects.create(
        session_id=theirs.id, assignee_id=person.pk, assignee=name, updated_by_id=person.pk
    )
