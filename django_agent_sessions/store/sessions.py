"""Sessions: open, create, change and delete."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Unpack
from uuid import UUID

from django.db.models import F, QuerySet
from django.utils import timezone

from django_agent_sessions import batches, notifying
from django_agent_sessions.exceptions import (
    ConfigurationError,
    SessionConflictError,
    SessionNotFoundError,
)
from django_agent_sessions.ids import new_id, validate_id
from django_agent_sessions.models import Session
from django_agent_sessions.owners import EVERYBODY
from django_agent_sessions.records import SessionRecord, Usage

from .base import insert, whole, write
from .changes import SessionChanges, changed_columns, refuse_loss
from .cleaning import cleaned_metadata, cleaned_title
from .session_reading import SessionReader, session_record


class SessionWriter(SessionReader):
    """The part of the store that makes, changes and deletes sessions."""

    def open(
        self,
        session_id: str,
        *,
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> SessionRecord:
        """Finds a session, or makes it.

        Args:
            session_id: Its name, unique in the namespace for all owners.
            title: A title for a session that is made.
            metadata: JSON for a session that is made.

        Returns:
            The session.

        Raises:
            SessionNotFoundError: The session is not this owner's; or there is none, and the store
                does not create any.
            InvalidIdError: The id cannot be one.
            PayloadError: The metadata is not JSON.
        """
        found = self.find(session_id)
        if found is not None:
            return found
        if not self._creates:
            if self.reach is EVERYBODY:
                raise SessionNotFoundError(
                    f"there is no session {session_id!r}; with owner=EVERYBODY a session is "
                    "created only with create=True"
                )
            raise self._not_found(session_id)
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
        external_id: str | None = None,
        id: UUID | None = None,  # noqa: A002 - the column's name
        created_at: datetime | None = None,
        updated_at: datetime | None = None,
    ) -> SessionRecord:
        """Makes a session.

        Args:
            session_id: Its name.
            title: A title for people.
            metadata: JSON for programs.
            session_type: What Strands calls the type of a session.
            external_id: The id that a client chose, unique among the owner's sessions.
            id: Its primary key, a UUIDv7; a new one, if not given.
            created_at: When it was made; now, if not given.
            updated_at: When it last changed; ``created_at``, if not given.

        Returns:
            The session.

        Raises:
            SessionConflictError: There is a session of this name in the namespace, or of this
                external id among the owner's.
            InvalidIdError: An id cannot be one.
            PayloadError: The metadata is not JSON.
            ConfigurationError: The store does not create sessions.
        """
        if not self._creates:
            raise ConfigurationError(
                "this store creates no sessions: with owner=EVERYBODY, or create=False, it takes "
                "create=True"
            )
        made = self._insert(
            session_id,
            title,
            metadata,
            session_type=session_type,
            external_id=external_id,
            key=id,
            created_at=created_at,
            updated_at=updated_at,
        )
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
        external_id: str | None = None,
        id: UUID | None = None,  # noqa: A002 - the column's name
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
            external_id=external_id,
            id=id,
            created_at=created_at,
            updated_at=updated_at,
        )

    def open_external(
        self,
        external_id: str,
        *,
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> tuple[SessionRecord, bool]:
        """Finds a session by the id that a client chose, or makes it, with a name of its own.

        Args:
            external_id: The id, unique among one owner's sessions.
            title: A title for a session that is made.
            metadata: JSON for a session that is made.

        Returns:
            The session, and whether it was made.

        Raises:
            InvalidIdError: The id cannot be one.
            PayloadError: The metadata is not JSON.
            ConfigurationError: The store has no owner.
            SessionConflictError: Somebody made it at the same moment, in a transaction that this
                one does not see.
        """
        found = self.find_external(external_id)
        if found is not None:
            return found, False
        key = new_id()
        made = self._insert(str(key), title, metadata, external_id=external_id, key=key)
        if made is not None:
            return made, True
        found = self.find_external(external_id)
        if found is None:
            raise SessionConflictError("a session of this external id was made a moment ago")
        return found, False

    async def aopen_external(
        self,
        external_id: str,
        *,
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> tuple[SessionRecord, bool]:
        """Does what :meth:`open_external` does."""
        return await self._arun(self.open_external, external_id, title=title, metadata=metadata)

    def update(self, session: UUID, **changes: Unpack[SessionChanges]) -> SessionRecord:
        """Changes what people and programs note about a session, and nothing that was said.

        Args:
            session: Primary key of the session.
            **changes: ``title``, ``metadata`` (replaced as a whole), ``archived`` (whether it is
                put away), ``expires_at`` (when it may be deleted; None for never). What is not
                given stays.

        Returns:
            The session as it is now.

        Raises:
            SessionNotFoundError: There is no such session, or it is not this owner's.
            LegalHoldError: It is under legal hold, and its title or metadata would be lost.
            PayloadError: The metadata is not JSON.
        """
        columns = changed_columns(changes, self.using)

        def update(unsure: bool) -> SessionRecord:
            with whole(self.using):
                # Locked, because a redaction writes titles and metadata too.
                row = self._reachable().select_for_update().filter(pk=session).first()
                if row is None:
                    raise self._not_found(str(session))
                refuse_loss(row, columns)
                for name, value in columns.items():
                    # When it was put away first is when it was put away.
                    if not (name == "archived_at" and value and row.archived_at):
                        setattr(row, name, value)
                if columns:
                    row.updated_at = timezone.now()
                    row.save(using=self.using, update_fields=[*columns, "updated_at"])
                    notifying.written(self.using, row.pk)
            return session_record(row)

        return write(self.using, update, what=f"changing session {session}", savepoint=False)

    async def aupdate(self, session: UUID, **changes: Unpack[SessionChanges]) -> SessionRecord:
        """Does what :meth:`update` does."""
        return await self._arun(self.update, session, **changes)

    def delete(self, session_id: str) -> bool:
        """Deletes a session with all that belongs to it.

        Args:
            session_id: Its name.

        Returns:
            Whether there was one that is this owner's.

        Raises:
            InvalidIdError: The id cannot be one.
            LegalHoldError: It is under legal hold.
        """
        rows = self._reachable().named(self.namespace, validate_id(session_id))

        def delete(unsure: bool) -> bool:
            nonlocal rows
            if batches.are_possible(self.using) and (key := batches.large(rows)):
                # It loses its name before its messages.
                rows = self._all().filter(pk=key)
                batches.empty(rows, key)
            with whole(self.using):
                row = rows.first()
                if row is None:
                    return unsure
                # A held one is refused, and any other recorded, whoever deletes it.
                row.delete()
            return True

        return write(self.using, delete, what=f"deleting session {session_id!r}")

    async def adelete(self, session_id: str) -> bool:
        """Does what :meth:`delete` does."""
        return await self._arun(self.delete, session_id)

    def touch(self, session: UUID, spent: Usage) -> None:
        """Notes that a turn ended: moves the last activity and the counters.

        Args:
            session: Primary key of the session.
            spent: What the turn added.
        """

        def update(unsure: bool) -> None:
            # After a lost connection the figures may have moved already; better twice the
            # activity than twice the tokens.
            self._move_counters(self._all().filter(pk=session), Usage() if unsure else spent)

        write(self.using, update, what="counting a turn", savepoint=False)

    def _move_counters(self, sessions: QuerySet[Session], by: Usage, **columns: Any) -> int:
        now = timezone.now()
        return sessions.update(
            last_activity_at=now,
            updated_at=now,
            message_count=F("message_count") + by.messages,
            input_tokens=F("input_tokens") + by.input_tokens,
            output_tokens=F("output_tokens") + by.output_tokens,
            **columns,
        )

    async def atouch(self, session: UUID, spent: Usage) -> None:
        """Does what :meth:`touch` does."""
        await self._arun(self.touch, session, spent)

    def _insert(
        self,
        session_id: str,
        title: str,
        metadata: Mapping[str, Any] | None,
        *,
        session_type: str = "AGENT",
        external_id: str | None = None,
        key: UUID | None = None,
        created_at: datetime | None = None,
        updated_at: datetime | None = None,
    ) -> SessionRecord | None:
        now = created_at or timezone.now()
        if external_id is not None:
            validate_id(external_id, "external_id")
        row = Session(  # type: ignore[misc] # the external id is the one id that may be missing
            id=key or new_id(),
            external_id=external_id,
            namespace=self.namespace,
            session_id=validate_id(session_id),
            session_type=session_type,
            owner_id=self.owner_id,
            title=cleaned_title(title),
            metadata=cleaned_metadata(metadata or {}, self.using),
            created_at=now,
            updated_at=updated_at or now,
            last_activity_at=now,
        )

        made = insert(self.using, row, what=f"creating session {session_id!r}")
        return session_record(row) if made else None
