"""The redaction epoch and the change numbers of a session, which a change of its content increases.

A writer with an older epoch is refused; a stream of events goes on after a change number.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.db.models import F
from django.utils import timezone

from django_agent_sessions.db.sqlite_secure_delete import secure_delete
from django_agent_sessions.db.write_hooks import on_written
from django_agent_sessions.models import Session


def increment_redaction_epoch(
    using: str, session: Session, now: datetime | None = None, *, redacted: bool = True
) -> int:
    """Increment the session's redaction epoch, so that writers with earlier reads are refused.

    A redaction empties a title that was made from messages.
    """
    epoch = session.redaction_epoch + 1
    empties_title = redacted and session.title_derived
    if empties_title:
        clear_derived_titles(using, [session.pk])
    Session.objects.using(using).filter(pk=session.pk).update(
        redaction_epoch=epoch,
        change=F("change") + 1,
        redaction_change=session.change + 1 if redacted else F("redaction_change"),
        redactions=F("redactions") + int(redacted),
        header_change=session.change + 1 if empties_title else F("header_change"),
        updated_at=now or timezone.now(),
    )
    if redacted:
        on_written(using, session.pk, "redact")
    return epoch


def clear_derived_titles(using: str, sessions: Collection[UUID]) -> None:
    """Empty the titles that were made from messages, of redacted sessions that are locked."""
    rows = Session.objects.using(using).filter(pk__in=sessions, title_derived=True)
    with secure_delete(using):
        rows.update(title="", title_derived=False)


def set_feedback_change(using: str, session: UUID, change: int) -> None:
    """Note with which change of a session its feedback changed, for streams of events."""
    Session.objects.using(using).filter(pk=session).update(feedback_change=change)
