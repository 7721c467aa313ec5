"""Sessions: open, create, find, list, change and delete."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from django_agent_sessions import transcripts
from django_agent_sessions.exceptions import (
    LegalHoldError,
    PayloadError,
    SessionConflictError,
    SessionNotFoundError,
)
from django_agent_sessions.ids import validate_id
from django_agent_sessions.models import Session
from django_agent_sessions.querysets import SessionQuerySet
from django_agent_sessions.records import SessionRecord, Usage

from .base import StorePart, insert, repeatable, write
from .vendors import check_statement_size

_TITLE_LENGTH = 255


class SessionsStore(StorePart):
    """The part of the store that knows sessions."""

    def open(
        self,
        session_id: str,
        *,
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> SessionRecord:
        """Finds a session, or makes it.

        Args:
            session_id: Its name. It may come from a browser, if the store has an owner.
            title: A title for a session that is made.
            metadata: JSON for a session that is made.

        Returns:
            The session.

        Raises:
            SessionNotFoundError: The store has an owner and the session is not that owner's.
            InvalidIdError: The id cannot be one.
            PayloadError: The metadata is not JSON.
        """
        found = self.find(session_id)
        if found is not None:
            return found
        made = self._insert(session_id, title, metadata)
        # It is somebody else's, or somebody made it in between: the owner decides again.
        return made if made is not None else self.get(session_id)

    async def aopen(
        self,
        session_id: str,
        *,
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> SessionRecord:
        """Does what :meth:`open` does."""
        return await self._arun(self.open, session_id, title=title, metadata=metadata)

    def create(
        self,
        session_id: str,
        *,
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
        session_type: str = "AGENT",
        created_at: datetime | None = None,
        updated_at: datetime | None = None,
    ) -> SessionRecord:
        """Makes a session.

        Args:
            session_id: Its name.
            title: A title for people.
            metadata: JSON for programs.
            session_type: What Strands calls the type of a session.
            created_at: When it was made; now, if not given.
            updated_at: When it last changed; ``created_at``, if not given.

        Returns:
            The session.

        Raises:
            SessionConflictError: There is a session of this name in the namespace.
            InvalidIdError: The id cannot be one.
            PayloadError: The metadata is not JSON.
        """
        made = self._insert(session_id, title, metadata, session_type, created_at, updated_at)
        if made is None:
            raise SessionConflictError(f"session {session_id!r} exists already")
        return made

    async def acreate(
        self,
        session_id: str,
        *,
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
        session_type: str = "AGENT",
        created_at: datetime | None = None,
        updated_at: datetime | None = None,
    ) -> SessionRecord:
        """Does what :meth:`create` does."""
        return await self._arun(
            self.create,
            session_id,
            title=title,
            metadata=metadata,
            session_type=session_type,
            created_at=created_at,
            updated_at=updated_at,
        )

    @repeatable
    def find(self, session_id: str) -> SessionRecord | None:
        """Reads a session.

        Args:
            session_id: Its name.

        Returns:
            The session; None if there is none, or it is not this owner's.

        Raises:
            InvalidIdError: The id cannot be one.
        """
        row = self._reachable().named(self.namespace, validate_id(session_id)).first()
        return None if row is None else _record(row)

    async def afind(self, session_id: str) -> SessionRecord | None:
        """Does what :meth:`find` does."""
        return await self._arun(self.find, session_id)

    def get(self, session_id: str) -> SessionRecord:
        """Reads a session that must exist.

        Args:
            session_id: Its name.

        Returns:
            The session.

        Raises:
            SessionNotFoundError: There is no such session, or it is not this owner's.
            InvalidIdError: The id cannot be one.
        """
        found = self.find(session_id)
        if found is None:
            raise _not_found(session_id)
        return found

    async def aget(self, session_id: str) -> SessionRecord:
        """Does what :meth:`get` does."""
        return await self._arun(self.get, session_id)

    @repeatable
    def list_sessions(
        self, *, limit: int = 50, after: SessionRecord | None = None
    ) -> list[SessionRecord]:
        """Lists sessions, the most recently active first.

        Args:
            limit: How many at the most.
            after: The last one of the page before.

        Returns:
            The sessions of the store's owner, or of everybody, in the store's namespace.
        """
        found = self._reachable().filter(namespace=self.namespace).recent_first()
        if after is not None:
            found = found.filter(
                Q(last_activity_at__lt=after.last_activity_at)
                | Q(last_activity_at=after.last_activity_at, id__lt=after.id)
            )
        return [_record(row) for row in found[:limit]]

    async def alist_sessions(
        self, *, limit: int = 50, after: SessionRecord | None = None
    ) -> list[SessionRecord]:
        """Does what :meth:`list_sessions` does."""
        return await self._arun(self.list_sessions, limit=limit, after=after)

    def delete(self, session_id: str) -> bool:
        """Deletes a session with all that belongs to it.

        Args:
            session_id: Its name.

        Returns:
            Whether there was one that is this owner's.

        Raises:
            LegalHoldError: It is under legal hold.
        """
        found = self.find(session_id)
        if found is None:
            return False

        def delete_unless_held(unsure: bool) -> bool:
            with transaction.atomic(self.using):
                row = self._all().select_for_update().filter(pk=found.id).first()
                if row is None:
                    return unsure
                if row.legal_hold:
                    raise LegalHoldError(
                        f"session {session_id!r} is under legal hold; release it first", [row]
                    )
                row.delete()
            return True

        return write(self.using, delete_unless_held, what=f"deleting session {session_id!r}")

    async def adelete(self, session_id: str) -> bool:
        """Does what :meth:`delete` does."""
        return await self._arun(self.delete, session_id)

    @repeatable
    def usage(self, session_id: str) -> Usage:
        """Sums up a session: one row's counters, however long the conversation is.

        Args:
            session_id: Its name.

        Returns:
            Messages and tokens of all its agents, as of the end of the last turn.

        Raises:
            SessionNotFoundError: There is no such session, or it is not this owner's.
        """
        return self.get(session_id).usage

    async def ausage(self, session_id: str) -> Usage:
        """Does what :meth:`usage` does."""
        return await self._arun(self.usage, session_id)

    def touch(self, session: UUID, spent: Usage) -> None:
        """Notes that a turn ended: moves the last activity and the counters.

        Args:
            session: Primary key of the session.
            spent: What the turn added.
        """
        now = timezone.now()

        def update(unsure: bool) -> bool:
            # After a lost connection the figures may have moved already; better twice the
            # activity than twice the tokens.
            moved = Usage() if unsure else spent
            self._all().filter(pk=session).update(
                last_activity_at=now,
                updated_at=now,
                message_count=F("message_count") + moved.messages,
                input_tokens=F("input_tokens") + moved.input_tokens,
                output_tokens=F("output_tokens") + moved.output_tokens,
            )
            return True

        write(self.using, update, what="counting a turn", savepoint=False)

    async def atouch(self, session: UUID, spent: Usage) -> None:
        """Does what :meth:`touch` does."""
        await self._arun(self.touch, session, spent)

    def _all(self) -> SessionQuerySet:
        return Session.objects.using(self.using)

    def _reachable(self) -> SessionQuerySet:
        return self._all() if self.owner_id is None else self._all().owned_by(self.owner_id)

    def _checked_metadata(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Refuses what the database would, before that aborts the caller's transaction."""
        try:
            text = json.dumps(dict(metadata), allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise PayloadError("the metadata is not JSON") from None
        if "\\u0000" in text or "\\ud" in text:
            _refuse_unstorable(metadata)
        check_statement_size(self.using, [text])
        return dict(metadata)

    def _insert(
        self,
        session_id: str,
        title: str,
        metadata: Mapping[str, Any] | None,
        session_type: str = "AGENT",
        created_at: datetime | None = None,
        updated_at: datetime | None = None,
    ) -> SessionRecord | None:
        now = created_at or timezone.now()
        row = Session(
            namespace=self.namespace,
            session_id=validate_id(session_id),
            session_type=session_type,
            owner_id=self.owner_id,
            title=transcripts.displayable(title)[:_TITLE_LENGTH],
            metadata=self._checked_metadata(metadata or {}),
            created_at=now,
            updated_at=updated_at or now,
            last_activity_at=now,
        )

        made = insert(self.using, row, what=f"creating session {session_id!r}")
        return _record(row) if made else None


def _not_found(session_id: str) -> SessionNotFoundError:
    return SessionNotFoundError(f"there is no session {session_id!r}")


def _refuse_unstorable(value: Any) -> None:
    if isinstance(value, str):
        if transcripts.displayable(value) != value:
            raise PayloadError("the metadata holds NUL or a lone surrogate")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _refuse_unstorable(key)
            _refuse_unstorable(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _refuse_unstorable(item)


def _record(row: Session) -> SessionRecord:
    return SessionRecord(
        id=row.id,
        session_id=row.session_id,
        namespace=row.namespace,
        session_type=row.session_type,
        owner_id=row.owner_id,
        external_id=row.external_id,
        title=row.title,
        metadata=row.metadata,
        redaction_epoch=row.redaction_epoch,
        usage=Usage(row.message_count, row.input_tokens, row.output_tokens),
        legal_hold=row.legal_hold,
        created_at=row.created_at,
        updated_at=row.updated_at,
        last_activity_at=row.last_activity_at,
        archived_at=row.archived_at,
        expires_at=row.expires_at,
    )
