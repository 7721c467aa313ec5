"""Feedback on messages: ratings and comments."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeGuard
from uuid import UUID

from django.utils import timezone

from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.content.masking.on_write import mask_on_write
from django_agent_sessions.db.retries import retry_reads
from django_agent_sessions.db.write_hooks import on_written
from django_agent_sessions.exceptions import InvalidIdError, PayloadError, SessionNotFoundError
from django_agent_sessions.models import MessageFeedback, Session, SessionMessage
from django_agent_sessions.models.content_field import update_one
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.models.session_names import SessionName
from django_agent_sessions.values.ids import id_for_time, new_id
from django_agent_sessions.values.records import FeedbackRecord

from ._change_numbers import set_feedback_change
from ._context import StorePart, twin
from ._session_names import find_key
from .locking import with_session_lock

MAX_COMMENT = 4000
"""The most characters of a comment."""

_ROWS = 100
"""Imported feedback that is inserted in one statement."""

_SOURCE = re.compile(r"[A-Za-z0-9_.:-]{1,32}")


class Feedback(StorePart):
    """The operations of a store on feedback."""

    def save(
        self,
        message: UUID,
        value: int,
        *,
        comment: str = "",
        source: str = "user",
        user: Any = None,
    ) -> FeedbackRecord:
        """Rate a message, and replace the feedback of the same user and source."""
        if not is_feedback_value(value):
            raise PayloadError("the value of feedback must be 1, 0 or -1")
        if len(comment) > MAX_COMMENT:
            raise PayloadError(f"a comment must be a text of at most {MAX_COMMENT:,} characters")
        valid_feedback_source(source)
        key: dict[str, Any] = {"message": message, "user": self._user(user), "source": source}
        masked = str(mask_on_write(displayable(comment), free=True))[:MAX_COMMENT]
        what = f"saving feedback on message {message}"

        def removes() -> bool:
            row = self._rows().filter(**key).first()
            return row is not None and (row.value, row.comment) != (value, masked)

        def save(session: Session) -> FeedbackRecord:
            if not SessionMessage.objects.using(self.using).filter(pk=message).exists():
                raise _not_found(message)
            now = timezone.now()
            row = self._rows().filter(**key).first()
            if row is None:
                row = MessageFeedback(
                    id=new_id(),
                    session_id=session.pk,
                    message_id=message,
                    user=key["user"],
                    source=source,
                    value=value,
                    comment=masked,
                    created_at=now,
                    updated_at=now,
                )
                row.save(using=self.using, force_insert=True)
                self._changed(session)
            elif (row.value, row.comment) != (value, masked):
                row.value, row.comment, row.updated_at = value, masked, now
                rows = self._rows().filter(pk=row.pk)
                update_one(rows, {"comment": masked}, value=value, updated_at=now)
                self._changed(session)
            return _record(row)

        key_of_session = self._session_of(message)
        return with_session_lock(self.using, key_of_session, save, what=what, removes=removes)

    asave = twin(save)

    @retry_reads
    def list(
        self, session: SessionName | None = None, *, message: UUID | None = None, user: Any = None
    ) -> builtins.list[FeedbackRecord]:
        """Read feedback in the sessions that the store reaches, oldest first."""
        sessions = self._context.sessions()
        if session is not None:
            key = find_key(self._context, session)
            sessions = sessions.none() if key is None else sessions.filter(pk=key)
        rows = self._rows().filter(session__in=sessions)
        if message is not None:
            rows = rows.filter(message=message)
        if user is not None:
            rows = rows.filter(user=self._user(user))
        return [_record(row) for row in rows.order_by("pk")]

    alist = twin(list)

    def delete(self, message: UUID, *, source: str = "user", user: Any = None) -> bool:
        """Delete the feedback of a user and source on a message."""
        what = f"deleting feedback on message {message}"
        rows = self._rows().filter(message=message, user=self._user(user), source=source)

        def delete(session: Session) -> bool:
            if not rows.exists():
                return False
            self._changed(session)
            return bool(rows.delete()[0])

        key = self._session_of(message)
        return with_session_lock(self.using, key, delete, what=what, removes=rows.exists)

    adelete = twin(delete)

    def _changed(self, session: Session) -> None:
        set_feedback_change(self.using, session.pk, session.change + 1)
        on_written(self.using, session.pk, "feedback")

    def _rows(self) -> Any:
        return MessageFeedback.objects.using(self.using)

    def _user(self, user: Any) -> str:
        key = self._context.reach.owner_id if user is None else getattr(user, "pk", user)
        return "" if key is None else str(key)

    def _session_of(self, message: UUID) -> UUID:
        rows = SessionMessage.objects.using(self.using).filter(pk=message)
        found = self._context.sessions().filter(pk__in=rows.values("session"))
        key: UUID | None = found.values_list("pk", flat=True).first()
        if key is None:
            raise _not_found(message)
        return key


def is_feedback_value(value: object) -> TypeGuard[int]:
    """Return whether a value is a rating: 1, 0 or -1."""
    return type(value) is int and value in MessageFeedback.Value.values


def valid_feedback_source(source: object) -> str:
    """Return a valid source; raise InvalidIdError for others."""
    if isinstance(source, str) and _SOURCE.fullmatch(source):
        return source
    raise InvalidIdError(
        "the source of feedback must have 1 to 32 letters, digits, '_', '.', ':' and '-'"
    )


def _not_found(message: UUID) -> SessionNotFoundError:
    return SessionNotFoundError(f"message {message} does not exist")


def _record(row: MessageFeedback) -> FeedbackRecord:
    comment: Any = row.comment
    return FeedbackRecord(
        id=row.pk,
        session=row.session_id,
        message=row.message_id,
        user=row.user,
        source=row.source,
        value=row.value,
        comment="" if isinstance(comment, CorruptPayload) else str(comment),
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


@dataclass(frozen=True, slots=True)
class ImportedFeedback:
    """Feedback as its source has it, with a user of this project."""

    id: UUID | None
    user: str
    source: str
    value: int
    comment: str
    created_at: datetime
    updated_at: datetime


def insert_feedback(
    using: str, session: UUID, messages: Iterable[tuple[UUID, Sequence[ImportedFeedback]]]
) -> None:
    """Insert the feedback of messages, by their keys; the caller has locked the session."""
    found = [(message, one) for message, listed in messages for one in listed]
    rows = MessageFeedback.objects.using(using)
    for start in range(0, len(found), _ROWS):
        part = found[start : start + _ROWS]
        keys = [one.id for _, one in part if one.id is not None]
        taken = set(rows.filter(pk__in=keys).values_list("pk", flat=True))
        new: list[MessageFeedback] = []
        for message, one in part:
            key = one.id
            if key is None or key in taken:
                key = id_for_time(one.created_at, len(new))
            taken.add(key)
            new.append(_imported_row(session, message, key, one))
        rows.bulk_create(new)


def _imported_row(
    session: UUID, message: UUID, key: UUID, one: ImportedFeedback
) -> MessageFeedback:
    comment = str(mask_on_write(displayable(one.comment), free=True))[:MAX_COMMENT]
    return MessageFeedback(
        id=key,
        session_id=session,
        message_id=message,
        user=one.user,
        source=one.source,
        value=one.value,
        comment=comment,
        created_at=one.created_at,
        updated_at=one.updated_at,
    )
