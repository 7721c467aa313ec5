"""What stays of a word that is in every column that can hold words: a table, decided by column.

A new column fails the first test until it is in the table or among the codes.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from django_agent_sessions import audit
from django_agent_sessions.governance import reviews
from django_agent_sessions.governance.erasure import erase
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import (
    AuditEvent,
    HeldCopy,
    Operation,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
    Snapshot,
)
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.snapshots import SnapshotStorageStore
from django_agent_sessions.testing import columns_containing
from tests.blobs.conftest import blob_folder  # noqa: F401 - a fixture

from .person import WORD, fill, message
from .test_content_columns import TEXTS, our_models

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("blob_folder"),
]

GONE, KEPT, STAYS = "gone", "in Redaction.kept", "stays, and the docs say so"

WORDS: dict[str, tuple[str, str, str]] = {
    # column: after a redaction with forks, after an erasure, after a deletion
    "Session.title": (GONE, GONE, GONE),
    "Session.metadata": (GONE, GONE, GONE),
    "Session.origin": (GONE, GONE, GONE),
    "Session.session_id": (KEPT, GONE, GONE),
    "Session.external_id": (KEPT, GONE, GONE),
    "SessionAgent.agent_id": (KEPT, GONE, GONE),
    "SessionAgent.state": (GONE, GONE, GONE),
    "SessionAgent.conversation_manager_state": (GONE, GONE, GONE),
    "SessionAgent.internal_state": (GONE, GONE, GONE),
    # Other forms of messages, and the message that is read instead of the original.
    "SessionAgent.window": (GONE, GONE, GONE),
    "Snapshot.messages": (GONE, GONE, GONE),
    "SessionMessage.message": (GONE, GONE, GONE),
    "SessionMessage.text": (GONE, GONE, GONE),
    "SessionMessage.external_id": (KEPT, GONE, GONE),
    "HeldCopy.content": (GONE, GONE, GONE),
    "SessionMultiAgent.multi_agent_id": (KEPT, GONE, GONE),
    "SessionMultiAgent.state": (GONE, GONE, GONE),
    "Branch.name": (KEPT, GONE, GONE),
    "SessionAgent.main_name": (KEPT, GONE, GONE),
    "Snapshot.snapshot_id": (KEPT, GONE, GONE),
    "Snapshot.document": (GONE, GONE, GONE),
    "StoredObject.key": (KEPT, GONE, GONE),
    "StoredPart.data": (GONE, GONE, GONE),
    "MessageFeedback.comment": (GONE, GONE, GONE),
    "MessageFeedback.source": (STAYS, GONE, GONE),
    "Note.text": (GONE, GONE, GONE),
    "Label.name": (KEPT, GONE, GONE),
    # Of the operations and events, which outlive their sessions.
    "Operation.reason": (GONE, STAYS, STAYS),
    "Operation.criteria": (GONE, STAYS, STAYS),
    "AuditEvent.reason": (GONE, STAYS, STAYS),
}

CODES = {
    # Keys and names of users, which an erasure replaces: see test_erasure_proof.py.
    *("AuditEvent.actor", "AuditEvent.actor_id", "SessionMessage.author", "MessageFeedback.user"),
    *("Note.author", "Note.author_id", "Operation.started_by", "Operation.started_by_name"),
    *("Review.assignee", "Review.assignee_id", "Review.updated_by", "Review.updated_by_id"),
    *("Participant.added_by", "ShareLink.created_by", "UsageRollup.key", "DataKey.owner"),
    # Words of this package, of an SDK or of the project's code.
    *("AuditEvent.action", "AuditEvent.details", "Operation.kind", "Operation.status"),
    *("Operation.problem", "Operation.report", "Operation.found", "Review.state"),
    *("Session.namespace", "Session.scope", "Session.session_type", "SessionAgent.dialect"),
    *("SessionMessage.role", "SessionMessage.model", "SessionMultiAgent.kind", "Branch.kind"),
    *("StoredObject.namespace", "StoredObject.scope", "Participant.role", "UsageRollup.dimension"),
    *("HeldCopy.kind", "RunLease.holder", "Blob.media_type", "Blob.storage"),
    # The storage's name and the path of a file; the owner's key, until the file is deleted.
    *("Blob.file", "FileToDelete.storage", "FileToDelete.file", "FileToDelete.owner"),
    # Digests, tokens, keys and figures.
    *("Blob.sha256", "StoredObject.digest", "RedactedOriginal.digest", "ShareLink.token_hash"),
    *("DataKey.master", "DataKey.wrapped", "UsageRollup.latencies"),
    *("TurnUsage.input_tokens_details", "TurnUsage.output_tokens_details"),
    "SessionAgent.removed_messages",
    # Sealed, and emptied at the end of an operation.
    "Operation.scope",
}


def text_columns() -> set[str]:
    return {
        f"{model.__name__}.{field.name}"
        for model in our_models()
        for field in model._meta.concrete_fields
        if isinstance(field, TEXTS)
    }


def with_word() -> set[str]:
    names = {
        f"{model._meta.db_table}.{field.column}": f"{model.__name__}.{field.name}"
        for model in our_models()
        for field in model._meta.concrete_fields
    }
    return {names[column] for column in columns_containing(WORD)}


@pytest.fixture
def planted(db, bob) -> Any:
    """A session with the word in each of the columns, and a fork of another user."""
    ada = get_user_model().objects.create_user("ada")
    session, _fork = fill(ada, bob)
    store = SessionStore(owner=ada)
    row = Session.objects.get(pk=session.id)
    Session.objects.filter(pk=row.pk).update(
        external_id=f"{WORD}-external", origin={"source": f"{WORD}-origin"}
    )
    other = {"message": message(f"{WORD}-other-form"), "position": 0}
    SessionAgent.objects.filter(session=row).update(
        agent_id=f"{WORD}-agent", main_name=f"{WORD}-main", window={"kept": [other], "tail": 3}
    )
    SessionMultiAgent.objects.filter(session=row).update(multi_agent_id=f"{WORD}-graph")
    Snapshot.objects.filter(session=row).update(
        snapshot_id=f"{WORD}-snapshot", messages=[other, [1, 4]]
    )
    first, second = SessionMessage.objects.filter(session=row).order_by("pk")[:2]
    SessionMessage.objects.filter(pk=first.pk).update(external_id=f"{WORD}-message")
    SessionMessage.objects.filter(pk=second.pk).update(
        message=message(f"{WORD}-redacted"), redacted_at=timezone.now()
    )
    HeldCopy.objects.create(
        session=row, kind="message", row=first.pk, content={"message": message(f"{WORD}-held")}
    )
    store.feedback.save(first.pk, 1, comment=f"{WORD}-comment", source=f"{WORD}-form")
    reviews.add_note(row.pk, f"{WORD}-note", author=bob)
    reviews.set_labels(row.pk, [f"{WORD}-label"], actor=bob)
    objects = SnapshotStorageStore(store)
    objects.write_object(f"{WORD}-key", f"{WORD}-object".encode(), session=session)
    operation = Operation.objects.create(
        kind="hold",
        status="done",
        reason=f"about {WORD}",
        criteria={"filters": {"metadata_note": [f"{WORD}-metadata"]}},
    )
    audit.record(
        AuditEvent.Action.HELD,
        session=row.pk,
        target=operation.pk,
        reason=f"about {WORD}",
        details={"via": "operation"},
    )
    assert with_word() == WORDS.keys()
    return row


def expected(number: int) -> set[str]:
    return {column for column, outcome in WORDS.items() if outcome[number] != GONE}


def test_every_column_that_can_hold_words_is_decided():
    decided = WORDS.keys() | CODES
    columns = text_columns() | {"StoredPart.data"}
    assert columns - decided == set(), "decide what a redaction, an erasure and a deletion leave"
    assert decided - columns == set()
    assert not WORDS.keys() & CODES


def test_after_a_redaction_the_word_is_where_the_table_says(planted):
    done = redact(planted.pk, Find(WORD), reason=f"remove {WORD}", descendants=True)

    assert with_word() == expected(0)
    models = {
        model.content_columns.kind: model.__name__
        for model in our_models()
        if hasattr(model, "content_columns")
    }
    kept = {f"{models[place.kind]}.{place.column}" for place in done.kept}
    assert {column for column, outcome in WORDS.items() if outcome[0] == KEPT} == kept


def test_after_an_erasure_the_word_is_where_the_table_says(planted):
    erase(planted.owner, reason=f"Request 31 of {WORD}", actor="desk")
    assert with_word() == expected(1)


def test_after_a_deletion_the_word_is_where_the_table_says(planted):
    Session.objects.filter(forked_from=planted.pk).delete()
    Session.objects.filter(pk=planted.pk).delete()
    assert with_word() == expected(2)
