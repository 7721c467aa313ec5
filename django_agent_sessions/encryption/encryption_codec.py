"""The codec that encrypts content by the key of its owner."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import router

from django_agent_sessions import conf
from django_agent_sessions.content import codec
from django_agent_sessions.content.codec import Codec, Holder, Owned
from django_agent_sessions.models import Session

from . import envelope
from .data_keys import CACHE_SECONDS, CachedKey, DataKeys, TimedCache


class EncryptionCodec(Codec):
    """Encrypts what is written, and decrypts what is encrypted; plain values stay readable."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self._encrypts = not options.get("DECRYPT_ONLY", False)
        # A column beside the payload would say what it says.
        self.hides_text = self._encrypts
        self.keys = DataKeys(options)
        self._owners: TimedCache[UUID, str] = TimedCache(
            options.get("CACHE_SECONDS", CACHE_SECONDS)
        )

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

    def forget(self) -> None:
        """Forget keys and owners, so that the next use reads them."""
        self.keys.forget()
        self._owners.clear()

    def key_for(self, holder: Holder) -> CachedKey:
        """Return the key that encrypts what a session or an owner has."""
        return self.keys.current(
            owner_name(holder.owner) if isinstance(holder, Owned) else self._owner_of(holder)
        )

    def _owner_of(self, session: UUID) -> str:
        if (owner := self._owners.get(session)) is None:
            alias = conf.get_settings().DATABASE or router.db_for_write(Session)
            rows = Session.objects.using(alias).filter(pk=session)
            owner = owner_name(rows.values_list("owner", flat=True).first())
            self._owners.put(session, owner)
        return owner


def owner_name(owner: Any) -> str:
    """Return how data keys name an owner, whose primary key is given."""
    return "" if owner is None else str(owner)
