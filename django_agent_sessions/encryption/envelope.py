"""The form of an encrypted value: version, data key, nonce, ciphertext with its tag."""

from __future__ import annotations

import binascii
import os
import re
from typing import TYPE_CHECKING

from django_agent_sessions.content.codec import BYTES_ENVELOPE
from django_agent_sessions.exceptions import DecryptionError, MissingDependencyError

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ImportError as error:
    raise MissingDependencyError("cryptography", extra="encryption") from error

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = "enc1"
_BYTES_VERSION = BYTES_ENVELOPE + b"1"
_NONCE = 12
_KEY_LENGTH = 32
_HEAD = len(VERSION) + 1 + _KEY_LENGTH + 1
_KEY_ID = re.compile(r"[0-9a-f]{32}")


def cipher_of(key: bytes) -> AESGCM:
    """Return the cipher of a data key."""
    return AESGCM(key)


def prefix(key_id: str) -> str:
    """Return how each text that a data key encrypted begins."""
    return f"{VERSION}:{key_id}:"


def prefix_of_bytes(key_id: str) -> bytes:
    """Return how all bytes begin that a data key encrypted."""
    return _BYTES_VERSION + bytes.fromhex(key_id)


def seal_text(cipher: AESGCM, key_id: str, context: str, text: str) -> str:
    """Encrypt a text. ``context`` names its row and column."""
    nonce = os.urandom(_NONCE)
    data = text.encode("utf-8", "surrogatepass")
    sealed = cipher.encrypt(nonce, data, _associated(key_id, context))
    return f"{VERSION}:{key_id}:{binascii.b2a_base64(nonce + sealed, newline=False).decode()}"


def key_of_text(stored: str) -> str:
    """Return the id of the data key of an encrypted text."""
    version, _, rest = stored.partition(":")
    if version != VERSION:
        raise DecryptionError(
            f"an encrypted value has the unknown version {version[:12]!r}: a newer release of "
            "django-agent-sessions wrote it, or it was changed"
        )
    if stored[_HEAD - 1 : _HEAD] != ":" or not _KEY_ID.fullmatch(
        stored, len(VERSION) + 1, _HEAD - 1
    ):
        raise DecryptionError(
            "an encrypted value is truncated or was changed: it names no data key"
        )
    return rest[:_KEY_LENGTH]


def open_text(cipher: AESGCM, key_id: str, contexts: list[str], stored: str) -> str:
    """Decrypt a text that was encrypted in one of some contexts."""
    try:
        data = binascii.a2b_base64(stored[_HEAD:], strict_mode=True)
    except binascii.Error:
        raise _damaged(contexts[0], key_id) from None
    return _decrypt(cipher, key_id, contexts, data).decode("utf-8", "surrogatepass")


def seal_bytes(cipher: AESGCM, key_id: str, context: str, data: bytes) -> bytes:
    """Encrypt bytes."""
    nonce = os.urandom(_NONCE)
    sealed = cipher.encrypt(nonce, data, _associated(key_id, context))
    return b"".join((prefix_of_bytes(key_id), nonce, sealed))


def key_of_bytes(stored: bytes) -> str:
    """Return the id of the data key of encrypted bytes."""
    start = len(_BYTES_VERSION)
    if not stored.startswith(_BYTES_VERSION):
        raise DecryptionError(
            "encrypted bytes have an unknown version: a newer release of django-agent-sessions "
            "wrote them, or they were changed"
        )
    if len(stored) < start + 16 + _NONCE:
        raise DecryptionError("encrypted bytes are truncated")
    return stored[start : start + 16].hex()


def open_bytes(cipher: AESGCM, key_id: str, context: str, stored: bytes) -> bytes:
    """Decrypt bytes."""
    return _decrypt(cipher, key_id, [context], stored[len(_BYTES_VERSION) + 16 :])


def _decrypt(cipher: AESGCM, key_id: str, contexts: list[str], data: bytes) -> bytes:
    if len(data) < _NONCE + 16:
        raise _damaged(contexts[0], key_id)
    for context in contexts:
        try:
            return cipher.decrypt(data[:_NONCE], data[_NONCE:], _associated(key_id, context))
        except InvalidTag:
            continue
    raise _damaged(contexts[0], key_id)


def _damaged(context: str, key_id: str) -> DecryptionError:
    return DecryptionError(
        f"the encrypted value of {context} cannot be decrypted by data key {key_id}: it was "
        "truncated, changed, or moved from another row or column"
    )


def _associated(key_id: str, context: str) -> bytes:
    return f"{VERSION}|{key_id}|{context}".encode()


def wrap(master: bytes, context: str, key: bytes) -> str:
    """Encrypt a data key by a master key."""
    nonce = os.urandom(_NONCE)
    return (nonce + AESGCM(master).encrypt(nonce, key, _associated("", context))).hex()


def unwrap(master: bytes, context: str, wrapped: str, failed: Callable[[], Exception]) -> bytes:
    """Decrypt a data key; raise what ``failed`` returns if this is not possible."""
    try:
        data = bytes.fromhex(wrapped)
        key = AESGCM(master).decrypt(data[:_NONCE], data[_NONCE:], _associated("", context))
    except (InvalidTag, ValueError):
        raise failed() from None
    if len(key) != 32:
        raise failed()
    return key
