"""The codec that encrypts content by the key of its owner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from django.db import connections, models, router

from django_agent_sessions.content import codec
from django_agent_sessions.content.codec import Codec, Holder, Owned
from django_agent_sessions.db import bridge
from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.models import Session

from . import envelope
from .data_keys import CachedKey, DataKeys, TimedCache
from .file_cipher import ChunkCipher

_OWNER_SECONDS = 60.0


class EncryptionCodec(Codec):
    """Encrypts what is written, and decrypts what is encrypted; plain values stay readable."""

    refuses_search = True

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self._encrypts = not options.get("DECRYPT_ONLY", False)
        # A column beside the payload would say what it says.
        self.hides_text = self._encrypts
        self.hides_metadata = bool(options.get("METADATA", False))
        self.keys = DataKeys(options)
        self._owners: TimedCache[UUID, str] = TimedCache(_OWNER_SECONDS)

    def seal(self, row: UUID, column: str, text: str, holder: Holder) -> str:
        if not self._encrypts:
            return text
        key = self.key_for(holder)
        return envelope.seal_text(key.cipher, key.id, f"{column}|{row.hex}", text)

    def open(self, row: UUID, column: str, stored: str) -> str:
        return self.open_selected(row.hex, [column], stored)

    def open_selected(self, row: str, columns: list[str], stored: str) -> str:
        if not codec.ENVELOPE.match(stored):
            return stored
        key_id = envelope.key_of_text(stored)
        key = self.keys.find(key_id)
        # The drivers return keys with and without hyphens.
        name = row.replace("-", "")
        contexts = [f"{column}|{name}" for column in columns]
        return envelope.open_text(key.cipher, key_id, contexts, stored)

    def seal_bytes(self, row: UUID, column: str, data: bytes, holder: Holder) -> bytes:
        if not self._encrypts:
            return codec.plain_bytes(data)
        key = self.key_for(holder)
        return envelope.seal_bytes(key.cipher, key.id, f"{column}|{row.hex}", data)

    def open_bytes(self, row: UUID, column: str, stored: bytes) -> bytes:
        if not stored.startswith(codec.BYTES_ENVELOPE):
            return stored
        key_id = envelope.key_of_bytes(stored)
        key = self.keys.find(key_id)
        return envelope.open_bytes(key.cipher, key_id, f"{column}|{row.hex}", stored)

    def is_current(self, stored: str, holder: Holder) -> bool:
        if not self._encrypts:
            return not codec.ENVELOPE.match(stored)
        return stored.startswith(envelope.prefix(self.key_for(holder).id))

    def is_current_bytes(self, stored: bytes, holder: Holder) -> bool:
        if not stored.startswith(codec.BYTES_ENVELOPE):
            return not self._encrypts
        return self._encrypts and envelope.key_of_bytes(stored) == self.key_for(holder).id

    @property
    def encrypts(self) -> bool:
        """Whether new content is encrypted, which ``DECRYPT_ONLY`` turns off."""
        return self._encrypts

    def remember(self, session: UUID, owner: Any) -> None:
        self._owners.put(session, owner_name(owner))

    def file_cipher(self, session: UUID, sha256: str) -> ChunkCipher | None:
        if not self._encrypts:
            return None
        return ChunkCipher(self.key_for(session), session, sha256)

    def find_file_cipher(self, key: UUID, session: UUID, sha256: str) -> ChunkCipher:
        return ChunkCipher(self.keys.find(key.hex), session, sha256)

    def keys_of(self, owner: Any) -> list[str]:
        return self.keys.ids(owner_name(owner))

    def beginnings(self, keys: Sequence[str]) -> tuple[list[str], list[bytes]]:
        return list(map(envelope.prefix, keys)), list(map(envelope.prefix_of_bytes, keys))

    def destroy_keys(self, keys: Sequence[str]) -> None:
        self.keys.destroy(keys)
        self.forget()

    def forget(self) -> None:
        """Forget keys and owners, so that the next use reads them."""
        self.keys.forget()
        self._owners.clear()

    def key_for(self, holder: Holder) -> CachedKey:
        """Return the key that encrypts what a session or an owner has.

        Raises SessionNotFoundError if the session is in no database: no other key takes the place
        of its owner's.
        """
        if isinstance(holder, Owned):
            return self.keys.current(owner_name(holder.owner))
        if not isinstance(holder, UUID):
            raise TypeError(f"a session's key or Owned is required, not {type(holder).__name__}")
        return self.keys.current(self._owner_of(holder))

    def _owner_of(self, session: UUID) -> str:
        if (owner := self._owners.get(session)) is None:
            rows = (_owner_in(alias, session) for alias in _databases())
            found = next((row for row in rows if row is not None), None)
            if found is None:
                raise SessionNotFoundError(
                    f"session {session} does not exist, so nothing of it can be encrypted"
                )
            owner = owner_name(*found)
            self._owners.put(session, owner)
        return owner


def _databases() -> Iterator[str]:
    """Yield the database of the sessions, then others that this thread uses and that have them."""
    first = bridge.database()
    yield first
    for connection in connections.all(initialized_only=True):
        if connection.alias != first and router.allow_migrate_model(connection.alias, Session):
            yield connection.alias


def _owner_in(alias: str, session: UUID) -> tuple[Any] | None:
    rows = Session.objects.using(alias).filter(pk=session).order_by().values_list("owner")
    found: tuple[Any] | None = rows.first()
    connection = connections[alias]
    if found is None and connection.vendor == "mysql" and connection.in_atomic_block:
        # The snapshot of the transaction may be older than the session.
        found = rows.select_for_update().first()
    return found


def owner_name(owner: Any) -> str:
    """Return how data keys name an owner, whose primary key is given; empty for no owner."""
    if isinstance(owner, models.Model):
        raise TypeError("the primary key of an owner is required, not the owner")
    return "" if owner is None else str(owner)
