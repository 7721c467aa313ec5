"""Objects of any size under string keys, for the storage interface of an SDK."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from django_agent_sessions.content.dialects import STRANDS, STRANDS_NODE
from django_agent_sessions.db.retries import retry_reads, tracked_atomic, write
from django_agent_sessions.exceptions import (
    ConfigurationError,
    InvalidIdError,
    SessionNotFoundError,
)
from django_agent_sessions.models import (
    Session,
    SessionAgent,
    SessionMessage,
    Snapshot,
    StoredObject,
    StoredPart,
)
from django_agent_sessions.models.querysets import begins_with
from django_agent_sessions.models.session_names import SessionName, name_in_errors
from django_agent_sessions.models.timeline import object_digest
from django_agent_sessions.values.ids import new_id
from django_agent_sessions.values.owners import EVERYBODY
from django_agent_sessions.values.records import SessionRecord

from ._context import StoreOperations
from ._object_bytes import read_bytes, write_bytes
from ._queries import lock_session_row
from ._session_names import require_session
from .locking import lock_session

_MAX_KEY_LENGTH = 700


class ObjectStore(StoreOperations):
    """The part of the store that keeps objects.

    An object of a session belongs to the session's owner and is deleted with the session. Any other
    object belongs to the store's owner; ownerless objects and those of users are separate.
    """

    def write_object(self, key: str, data: bytes, *, session: SessionName | None = None) -> None:
        """Create or overwrite an object."""
        row, digest = self._place(key, session)

        def put(unsure: bool) -> None:
            with tracked_atomic(self.using):
                if row is not None:
                    lock_session_row(self.using, row.id)
                rows = self._stored().filter(digest=digest)
                now = timezone.now()
                stored = rows.select_for_update().values_list("pk", flat=True).first()
                if stored is None:
                    if row is None and not self._context.creates:
                        raise ConfigurationError(
                            "the object does not exist: pass create=True to create it"
                        )
                    stored = new_id()
                    StoredObject(
                        id=stored,
                        namespace=self._context.namespace,
                        scope=self._context.scope,
                        owner_id=self._context.reach.owner_id if row is None else row.owner_id,
                        session_id=None if row is None else row.id,
                        key=key,
                        digest=digest,
                        size=len(data),
                        created_at=now,
                        updated_at=now,
                    ).save(using=self.using, force_insert=True)
                else:
                    if row is not None and self.read_object(key, session=row) != data:
                        lock_session(self.using, row.id, removes=True)
                    rows.update(size=len(data), revision=F("revision") + 1, updated_at=now)
                write_bytes(self.using, stored, data)

        write(self.using, put, what="writing a stored object")

    @retry_reads
    def read_object(self, key: str, *, session: SessionName | None = None) -> bytes | None:
        """Read an object; None if it does not exist."""
        _, digest = self._place(key, session)
        return read_bytes(self._parts().filter(stored__digest=digest))

    def delete_object(self, key: str, *, session: SessionName | None = None) -> bool:
        """Delete an object; return whether it existed."""
        row, digest = self._place(key, session)

        def delete(unsure: bool) -> bool:
            with tracked_atomic(self.using):
                if row is not None:
                    lock_session(self.using, row.id, removes=True)
                stored = self._stored().filter(digest=digest).values_list("pk", flat=True).first()
                if stored is None:
                    return unsure
                self._parts().filter(stored=stored).delete()
                self._stored().filter(pk=stored).delete()
            return True

        return write(self.using, delete, what="deleting a stored object")

    @retry_reads
    def object_keys(self, prefix: str = "") -> list[str]:
        """List the keys of the objects that the store reaches in its namespace.

        With ``EVERYBODY``, these are the objects of sessions and the objects without an owner.
        """
        rows = self._stored().filter(namespace=self._context.namespace, scope=self._context.scope)
        if self._context.reach.key is EVERYBODY:
            # Excludes users' objects without a session, which are identified by key and owner.
            rows = rows.filter(Q(owner__isnull=True) | Q(session__isnull=False))
        else:
            rows = rows.filter(self._context.reach.condition())
        if prefix:
            rows = rows.filter(begins_with("key", prefix))
        return list(rows.order_by().values_list("key", flat=True))

    def delete_session_if_empty(self, session: SessionName) -> bool:
        """Delete a session without snapshots and objects; return whether it was deleted.

        A session with messages of other programs stays.
        """
        try:
            key = self._named(session).id
        except SessionNotFoundError:
            return False

        def drop(unsure: bool) -> bool:
            with tracked_atomic(self.using):
                rows = Session.objects.using(self.using).filter(pk=key)
                row = rows.select_for_update().first()
                if row is None or self._is_in_use(row.pk):
                    return False
                row.delete()
            return True

        return write(self.using, drop, what=f"deleting session {name_in_errors(session)!r}")

    def _is_in_use(self, session: UUID) -> bool:
        using = self.using
        return (
            Snapshot.objects.using(using).filter(session=session).exists()
            or self._stored().filter(session=session).exists()
            # Only session managers, which write message by message, set a `run_id`.
            or SessionMessage.objects.using(using)
            .filter(session=session, run_id__isnull=False)
            .exists()
            or SessionAgent.objects.using(using)
            .filter(session=session)
            .exclude(dialect__in=(STRANDS, STRANDS_NODE))
            .exists()
        )

    def _place(
        self, key: str, session: SessionName | None
    ) -> tuple[SessionRecord | Session | None, str]:
        """Return the object's session, if it has one, and the digest that identifies the object."""
        row = None if session is None else self._named(session)
        owner = self._context.reach.owner_id if row is None else row.owner_id
        return row, self._digest(key, owner)

    def _named(self, session: SessionName) -> SessionRecord | Session:
        """Return the session of an object. A record of the owner may be of another namespace."""
        if isinstance(session, SessionRecord | Session) and self._context.reach.includes(
            session.owner_id
        ):
            return session
        return require_session(self._context, session)

    def _digest(self, key: str, owner: Any) -> str:
        if not key or len(key) > _MAX_KEY_LENGTH:
            raise InvalidIdError(f"the key has {len(key)} characters; use 1 to {_MAX_KEY_LENGTH}")
        try:
            valid = "\0" not in key and key.encode() is not None
        except UnicodeEncodeError:
            valid = False
        if not valid:
            raise InvalidIdError("the key contains NUL or a lone surrogate; remove it")
        return object_digest(self._context.namespace, self._context.scope, owner, key)

    def _stored(self) -> QuerySet[StoredObject]:
        return StoredObject.objects.using(self.using)

    def _parts(self) -> QuerySet[StoredPart]:
        return StoredPart.objects.using(self.using)
