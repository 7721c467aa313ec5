"""The files of large binaries: AES-256-GCM for each chunk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from uuid import UUID

from cryptography.exceptions import InvalidTag

from django_agent_sessions.content.sealed_files import CHUNK, FileCipher
from django_agent_sessions.exceptions import DecryptionError

if TYPE_CHECKING:
    from .data_keys import CachedKey

_VERSION = b"\x00encf1"
_NONCE = 12


class ChunkCipher(FileCipher):
    """Binds each chunk to its place, and to the session and the hash of its binary."""

    def __init__(self, key: CachedKey, session: UUID, sha256: str) -> None:
        self.key = UUID(key.id)
        self._cipher = key.cipher
        self._header = _VERSION + self.key.bytes
        self._name = f"{key.id}|{session.hex}|{sha256}"

    def seal(self, data: bytes) -> bytes:
        starts = range(0, max(len(data), 1), CHUNK)
        sealed = [self._header]
        view = memoryview(data)
        for number, start in enumerate(starts):
            nonce = os.urandom(_NONCE)
            context = self._context(number, last=number == len(starts) - 1)
            sealed += [nonce, self._cipher.encrypt(nonce, view[start : start + CHUNK], context)]
        return b"".join(sealed)

    def open_header(self, header: bytes) -> None:
        if header != self._header:
            raise DecryptionError(
                f"an encrypted file does not begin with its version and data key {self.key.hex}: "
                "it was changed, is another file, or a newer release wrote it"
            )

    def open_chunk(self, number: int, stored: bytes, *, last: bool) -> bytes:
        try:
            context = self._context(number, last=last)
            return self._cipher.decrypt(stored[:_NONCE], stored[_NONCE:], context)
        except (InvalidTag, ValueError):
            raise DecryptionError(
                f"chunk {number} of an encrypted file cannot be decrypted by data key "
                f"{self.key.hex}: the file was truncated or changed, or is that of another binary"
            ) from None

    def _context(self, number: int, *, last: bool) -> bytes:
        return f"file|{self._name}|{number}|{'last' if last else 'more'}".encode()
