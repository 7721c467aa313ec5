"""Notes, labels, state and assignee of a session under review: staff only, and audited.

As all services, these ask no permission; pages ask for those of ``REVIEWING``. A note holds
content: it is redacted, exported, held and encrypted as the comments of feedback are.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.contrib import auth
from django.utils import timezone

from django_agent_sessions import audit
from django_agent_sessions.db import bridge
from django_agent_sessions.db.loop_guard import sync_only
from django_agent_sessions.exceptions import PayloadError, TargetNotFoundError
from django_agent_sessions.models import AuditEvent, Label, Note, Review, Session, SessionMessage
from django_agent_sessions.models.access import SessionReach, reach_of
from django_agent_sessions.models.permissions import REVIEWING, SessionPermission
from django_agent_sessions.models.session_names import SessionName, session_key
from django_agent_sessions.store.contents import (
    MAX_LABELS,
    MAX_NOTES,
    insert_note,
    label_name,
    note_text,
    replace_note,
)

from .session_change import SessionChange, change

MAX_REVIEWERS = 100
"""The most users of an authentication back end that are suggested as assignees."""

MAX_SUGGESTED = 12
"""The most labels that are suggested."""

_NEWEST_LABELS = 200


def reviewer_names() -> list[str]:
    """Return the names of the first staff members with the permission to review.

    Authentication back ends find them, by Django's ``with_perm``.
    """
    permission = f"{Session._meta.app_label}.{SessionPermission.REVIEW}"
    model = auth.get_user_model()
    name = model.USERNAME_FIELD
    # A column as a rule; the permissions of all users would be looked up without it.
    columns = {field.name for field in model._meta.concrete_fields}
    staff = {"is_staff": True} if "is_staff" in columns else {}
    found: list[str] = []
    for backend in auth.get_backends():
        if hasattr(backend, "with_perm"):
            users = backend.with_perm(permission).filter(**staff).order_by(name)[:MAX_REVIEWERS]
            found += [user.get_username() for user in users if user.is_staff]
    return [*dict.fromkeys(found)]


def suggested_labels(sessions: SessionReach, *, using: str) -> list[str]:
    """Return names among the newest labels of these sessions."""
    rows = Label.objects.using(using)
    if not sessions.is_everything:
        rows = rows.filter(session__in=sessions.filter(Session.objects.order_by().values("pk")))
    names = rows.order_by("-pk").values_list("name", flat=True)[:_NEWEST_LABELS]
    return [*dict.fromkeys(names)][:MAX_SUGGESTED]


@sync_only
def add_note(
    session: SessionName,
    text: str,
    *,
    author: Any,
    message: UUID | None = None,
    using: str | None = None,
) -> UUID:
    """Add a note to a session or to one of its messages, and return its key.

    Raises ``PayloadError`` for an empty or long text, and for one note too many.
    """
    pk = session_key(session, using)
    text = note_text(text)

    def apply(current: SessionChange) -> UUID:
        _require_message(current, message)
        if _notes(current).count() >= MAX_NOTES:
            raise PayloadError(f"a session has at most {MAX_NOTES} notes")
        key = insert_note(
            current.using,
            pk,
            text,
            author_id=_key(author),
            author=audit.actor_name(author),
            message=message,
        )
        current.record(AuditEvent.Action.NOTE_ADDED, target=message, note=str(key))
        return key

    what = f"adding a note to session {pk}"
    return change(pk, apply, what=what, actor=author, silent=True, using=using).result


@sync_only
def edit_note(
    session: SessionName, note: UUID, text: str, *, author: Any, using: str | None = None
) -> None:
    """Replace the text of a note of this author, unless the session is under legal hold."""
    pk = session_key(session, using)
    text, what = note_text(text), f"editing a note of session {pk}"
    alias = bridge.database(using)

    def removes() -> bool:
        row = _own_notes(alias, pk, note, author).first()
        return row is not None and row.text != text

    def apply(current: SessionChange) -> None:
        row = _own_note(current, note, author)
        if row.text != text:
            replace_note(current.using, note, text)
            current.record(AuditEvent.Action.NOTE_EDITED, target=row.message_id, note=str(note))

    change(pk, apply, what=what, actor=author, removes=removes, silent=True, using=alias)


@sync_only
def delete_note(session: SessionName, note: UUID, *, author: Any, using: str | None = None) -> None:
    """Delete a note of this author, unless the session is under legal hold."""
    pk = session_key(session, using)
    what, alias = f"deleting a note of session {pk}", bridge.database(using)
    removes = _own_notes(alias, pk, note, author).exists

    def apply(current: SessionChange) -> None:
        # The data key of its text may have been destroyed.
        row = _own_note(current, note, author, "text")
        _notes(current).filter(pk=note).delete()
        current.record(AuditEvent.Action.NOTE_DELETED, target=row.message_id, note=str(note))

    change(pk, apply, what=what, actor=author, removes=removes, silent=True, using=alias)


@sync_only
def set_labels(
    session: SessionName,
    names: Collection[str],
    *,
    actor: Any,
    message: UUID | None = None,
    using: str | None = None,
) -> None:
    """Replace the labels of a session or message; a legal hold forbids to remove one.

    Raises ``PayloadError`` for an empty or long label, and for too many.
    """
    pk = session_key(session, using)
    wanted, what = {label_name(name) for name in names}, f"labeling session {pk}"
    if len(wanted) > MAX_LABELS:
        raise PayloadError(f"there are at most {MAX_LABELS} labels")

    alias = bridge.database(using)
    rows = Label.objects.using(alias).filter(session=pk, message=message)

    def removes() -> bool:
        return not wanted.issuperset(rows.values_list("name", flat=True))

    def apply(current: SessionChange) -> None:
        _require_message(current, message)
        present = set(rows.values_list("name", flat=True))
        added, removed = sorted(wanted - present), present - wanted
        if removed:
            rows.filter(name__in=removed).delete()
        new = [Label(session_id=pk, message_id=message, name=name) for name in added]
        Label.objects.using(current.using).bulk_create(new)
        if added or removed:
            # Not the names, which are free text.
            figures = {"labels_added": len(added), "labels_removed": len(removed)}
            details: dict[str, Any] = {name: count for name, count in figures.items() if count}
            current.record(AuditEvent.Action.LABELED, target=message, **details)

    change(pk, apply, what=what, actor=actor, removes=removes, silent=True, using=alias)


@sync_only
def set_state(
    session: SessionName, state: Review.State, *, actor: Any, using: str | None = None
) -> None:
    """Set the state of a session's review."""
    pk = session_key(session, using)

    def apply(current: SessionChange) -> None:
        review = _review(current)
        if review._state.adding or review.state != state:
            review.state = state
            _save(current, review, state=state.value)

    what = f"setting the state of the review of session {pk}"
    change(pk, apply, what=what, actor=actor, silent=True, using=using)


@sync_only
def assign(session: SessionName, assignee: Any, *, actor: Any, using: str | None = None) -> None:
    """Assign a session's review to a user who may review it, or to nobody with None."""
    pk = session_key(session, using)

    def apply(current: SessionChange) -> None:
        reached = assignee is None or reach_of(assignee, *REVIEWING).includes(current.session)
        if not reached:
            raise PayloadError("this user may not review this session")
        review, key = _review(current), _key(assignee)
        if review.assignee_id != key:
            review.assignee_id, review.assignee = key, audit.actor_name(assignee)
            _save(current, review, assignee=review.assignee, user_id=key)

    what = f"assigning the review of session {pk}"
    change(pk, apply, what=what, actor=actor, silent=True, using=using)


def _review(current: SessionChange) -> Review:
    rows = Review.objects.using(current.using).filter(session=current.session.pk)
    return rows.first() or Review(session_id=current.session.pk)


def _save(current: SessionChange, review: Review, **details: Any) -> None:
    review.updated_by_id, review.updated_by = _key(current.actor), audit.actor_name(current.actor)
    review.updated_at = timezone.now()
    review.save(using=current.using)
    current.record(AuditEvent.Action.REVIEWED, **details)


def _notes(current: SessionChange) -> Any:
    return Note.objects.using(current.using).filter(session=current.session.pk)


def _own_notes(using: str, session: UUID, note: UUID, author: Any) -> Any:
    rows = Note.objects.using(using)
    key = _key(author)
    return rows.filter(session=session, pk=note, author_id=key) if key else rows.none()


def _own_note(current: SessionChange, note: UUID, author: Any, *without: str) -> Note:
    """Return a note of an author; one of another author is not found either."""
    rows = _own_notes(current.using, current.session.pk, note, author)
    row: Note | None = rows.defer(*without).first()
    if row is None:
        raise TargetNotFoundError("note", f"session {current.session.pk} has no such note")
    return row


def _require_message(current: SessionChange, message: UUID | None) -> None:
    rows = SessionMessage.objects.using(current.using).filter(session=current.session.pk)
    if message is not None and not rows.filter(pk=message).exists():
        text = f"session {current.session.pk} has no message {message}"
        raise TargetNotFoundError("message", text)


def _key(user: Any) -> str:
    key = getattr(user, "pk", None)
    return "" if key is None else str(key)
