"""Write notes, and the notes, labels and state of an imported session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.utils import timezone

from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.content.masking.on_write import mask_on_write
from django_agent_sessions.exceptions import PayloadError
from django_agent_sessions.models import Label, Note, Review
from django_agent_sessions.models.content_field import update_one
from django_agent_sessions.models.review import MAX_LABEL
from django_agent_sessions.values.ids import id_for_time

MAX_NOTE = 4000
"""The most characters of a note."""

MAX_NOTES = 500
"""The most notes of a session."""

MAX_LABELS = 20
"""The most labels of a session or message."""

MAX_USER_NAME = 255
"""The most characters of the name of an author or assignee."""


def note_text(text: str) -> str:
    """Return a note as it is stored; raise PayloadError if it is empty or too long."""
    clean = displayable(text).strip()
    if not clean or len(clean) > MAX_NOTE:
        raise PayloadError(f"a note must be a text of 1 to {MAX_NOTE:,} characters")
    return str(mask_on_write(clean, free=True))[:MAX_NOTE]


def label_name(name: str) -> str:
    """Return a label with single spaces; raise PayloadError if it is empty or too long."""
    clean = " ".join(displayable(name).split())
    if not clean or len(clean) > MAX_LABEL:
        raise PayloadError(f"a label must be a text of 1 to {MAX_LABEL} characters")
    return clean


def insert_note(
    using: str, session: UUID, text: str, *, author_id: str, author: str, message: UUID | None
) -> UUID:
    """Insert a note in a session that the caller has locked, and return its key."""
    now = timezone.now()
    note = Note(
        session_id=session,
        message_id=message,
        author_id=author_id,
        author=author,
        text=text,
        created_at=now,
        updated_at=now,
    )
    note.save(using=using, force_insert=True)
    return note.pk


def replace_note(using: str, note: UUID, text: str) -> None:
    """Replace the text of a note; the caller has locked the session."""
    rows = Note.objects.using(using).filter(pk=note)
    update_one(rows, {"text": text}, updated_at=timezone.now())


@dataclass(frozen=True, slots=True)
class ImportedNote:
    """A note as its source has it; no user of this project wrote it."""

    id: UUID | None
    message: UUID | None
    author: str
    text: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class ImportedLabel:
    """A label as its source has it."""

    id: UUID | None
    message: UUID | None
    name: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ImportedReview:
    """The review of an imported session; ``state`` is None if it has none."""

    notes: Sequence[ImportedNote] = ()
    labels: Sequence[ImportedLabel] = ()
    state: str | None = None
    assignee: str = ""
    updated_by: str = ""
    updated_at: datetime | None = None


def insert_review(using: str, session: UUID, found: ImportedReview) -> None:
    """Insert what an import read; the caller has locked the session."""
    notes = zip(_free_keys(using, Note, found.notes), found.notes, strict=True)
    Note.objects.using(using).bulk_create(
        Note(
            id=key,
            session_id=session,
            message_id=one.message,
            author=one.author,
            text=note_text(one.text),
            created_at=one.created_at,
            updated_at=one.updated_at,
        )
        for key, one in notes
    )
    labels = zip(_free_keys(using, Label, found.labels), found.labels, strict=True)
    Label.objects.using(using).bulk_create(
        Label(
            id=key,
            session_id=session,
            message_id=one.message,
            name=one.name,
            created_at=one.created_at,
        )
        for key, one in labels
    )
    if found.state is not None:
        Review.objects.using(using).create(
            session_id=session,
            state=found.state,
            assignee=found.assignee,
            updated_by=found.updated_by,
            updated_at=found.updated_at or timezone.now(),
        )


def _free_keys(
    using: str, model: type[Note | Label], found: Sequence[ImportedNote | ImportedLabel]
) -> list[UUID]:
    """Return the keys of the source that are free here, and new ones of the same time."""
    known = [one.id for one in found if one.id is not None]
    taken = set(model._base_manager.using(using).filter(pk__in=known).values_list("pk", flat=True))
    keys: list[UUID] = []
    for number, one in enumerate(found):
        key = one.id
        if key is None or key in taken:
            key = id_for_time(one.created_at, number)
        taken.add(key)
        keys.append(key)
    return keys
