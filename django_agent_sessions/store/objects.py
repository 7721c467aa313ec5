"""Bytes under keys, of whatever size: what an SDK's storage keeps beside conversations."""

from __future__ import annotations

import hashlib
import json
from typing import Any
from uuid import UUID

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from django_agent_sessions.exceptions import ConfigurationError, InvalidIdError, LegalHoldError
from django_agent_sessions.ids import new_id
from django_agent_sessions.models import (
    Session,
    SessionAgent,
    SessionMessage,
    Snapshot,
    StoredObject,
    StoredPart,
)
from django_agent_sessions.owners import EVERYBODY, reached
from django_agent_sessions.querysets import begins_with
from django_agent_sessions.records import SessionRecord
from django_agent_sessions.transcripts import STRANDS

from .base import StorePart, repeatable, whole, write

PART_SIZE = 1024 * 1024
"""The most bytes of one row: every database takes a statement with so many."""
_LONGEST_KEY = 700


class ObjectStore(StorePart):
    """The part of the store that keeps bytes under keys.

    An object of a session belongs to the session's owner, whoever wrote it, and goes with the
    session. Any other is its writer's: one that has no owner and one of a user never meet.
    """

    def write_object(self, key: str, data: bytes, *, session: SessionRecord | None = None) -> None:
        """Writes an object, or overwrites it.

        Args:
            key: Its key, unique among the owner's in the namespace.
            data: The bytes.
            session: The session it belongs to.

        Raises:
            InvalidIdError: The key cannot be one.
            SessionNotFoundError: The session was deleted.
            LegalHoldError: Its session is under legal hold, and other bytes are there.
            ConfigurationError: There is none, and the store creates none.
        """
        owner = self.owner_id if session is None else session.owner_id
        digest = self._digest(key, owner)

        def put(unsure: bool) -> None:
            with whole(self.using):
                if session is not None:
                    self._lock_session_first(session.id)
                rows = self._stored().filter(digest=digest)
                now = timezone.now()
                found = rows.select_for_update().values_list("pk", flat=True).first()
                if found is None:
                    if session is None and not self._creates:
                        raise ConfigurationError(
                            "there is no object of this key, and this store creates none: with "
                            "owner=EVERYBODY, or create=False, it takes create=True"
                        )
                    found = new_id()
                    StoredObject(
                        id=found,
                        namespace=self.namespace,
                        owner_id=owner,
                        session_id=None if session is None else session.id,
                        key=key,
                        digest=digest,
                        size=len(data),
                        created_at=now,
                        updated_at=now,
                    ).save(using=self.using, force_insert=True)
                else:
                    if session is not None and self.read_object(key, session=session) != data:
                        self._refuse_if_held(session.id)
                    rows.update(size=len(data), revision=F("revision") + 1, updated_at=now)
                    self._parts().filter(stored=found).delete()
                for number, first in enumerate(range(0, max(len(data), 1), PART_SIZE)):
                    part = data[first : first + PART_SIZE]
                    StoredPart(stored_id=found, number=number, data=part).save(
                        using=self.using, force_insert=True
                    )

        write(self.using, put, what="writing a stored object")

    @repeatable
    def read_object(self, key: str, *, session: SessionRecord | None = None) -> bytes | None:
        """Reads an object.

        Args:
            key: Its key.
            session: The session it belongs to.

        Returns:
            Its bytes; None if there is none.

        Raises:
            InvalidIdError: The key cannot be one.
        """
        owner = self.owner_id if session is None else session.owner_id
        parts = self._parts().filter(stored__digest=self._digest(key, owner)).order_by("number")
        found = [bytes(part) for part in parts.values_list("data", flat=True)]
        return b"".join(found) if found else None

    def delete_object(self, key: str, *, session: SessionRecord | None = None) -> bool:
        """Deletes an object.

        Args:
            key: Its key.
            session: The session it belongs to.

        Returns:
            Whether there was one.

        Raises:
            InvalidIdError: The key cannot be one.
            LegalHoldError: Its session is under legal hold.
        """
        owner = self.owner_id if session is None else session.owner_id
        digest = self._digest(key, owner)

        def delete(unsure: bool) -> bool:
            with whole(self.using):
                if session is not None:
                    self._refuse_if_held(session.id)
                found = self._stored().filter(digest=digest).values_list("pk", flat=True).first()
                if found is None:
                    return unsure
                self._parts().filter(stored=found).delete()
                self._stored().filter(pk=found).delete()
            return True

        return write(self.using, delete, what="deleting a stored object")

    @repeatable
    def object_keys(self, prefix: str = "") -> list[str]:
        """Lists the keys of the objects that the store reaches in its namespace.

        Args:
            prefix: How the keys begin.

        Returns:
            The keys; with ``EVERYBODY`` those of all sessions, and those of nobody.
        """
        rows = self._stored().filter(namespace=self.namespace)
        if self.reach is EVERYBODY:
            # A user's own object that belongs to no session is reached by its key and owner only.
            rows = rows.filter(Q(owner__isnull=True) | Q(session__isnull=False))
        else:
            rows = rows.filter(reached(self.reach))
        if prefix:
            rows = rows.filter(begins_with("key", prefix))
        return list(rows.order_by().values_list("key", flat=True))

    def drop_if_empty(self, session: UUID) -> bool:
        """Deletes a session of which a storage has let go: no snapshot and no object is left.

        A session in which other programs wrote stays.

        Args:
            session: Primary key of the session.

        Returns:
            Whether it was deleted.

        Raises:
            LegalHoldError: It is under legal hold.
        """

        def drop(unsure: bool) -> bool:
            with whole(self.using):
                rows = Session.objects.using(self.using).filter(pk=session)
                row = rows.select_for_update().first()
                if row is None or self._is_in_use(session):
                    return False
                row.delete()
            return True

        return write(self.using, drop, what=f"deleting session {session}")

    def _is_in_use(self, session: UUID) -> bool:
        using = self.using
        return (
            Snapshot.objects.using(using).filter(session=session).exists()
            or self._stored().filter(session=session).exists()
            # What marks its runs is a session manager that writes message by message.
            or SessionMessage.objects.using(using)
            .filter(session=session, run_id__isnull=False)
            .exists()
            or SessionAgent.objects.using(using)
            .filter(session=session)
            .exclude(dialect=STRANDS)
            .exists()
        )

    def _refuse_if_held(self, session: UUID) -> None:
        row = Session.objects.using(self.using).filter(pk=session).select_for_update().first()
        if row is not None and row.legal_hold:
            raise LegalHoldError(
                f"session {row.session_id!r} is under legal hold; release it first", [row]
            )

    def _digest(self, key: str, owner: Any) -> str:
        if not key or len(key) > _LONGEST_KEY:
            raise InvalidIdError(f"the key has {len(key)} characters; at most {_LONGEST_KEY}")
        try:
            usable = "\0" not in key and key.encode() is not None
        except UnicodeEncodeError:
            usable = False
        if not usable:
            raise InvalidIdError("the key holds NUL or a lone surrogate")
        name = json.dumps([self.namespace, None if owner is None else str(owner), key])
        return hashlib.sha256(name.encode()).hexdigest()

    def _stored(self) -> QuerySet[StoredObject]:
        return StoredObject.objects.using(self.using)

    def _parts(self) -> QuerySet[StoredPart]:
        return StoredPart.objects.using(self.using)
