"""How content is stored: as plain text, or sealed by a codec that knows the row and the column.

A codec binds a stored text to its row and column, so that a text that was moved to another row or
column cannot be opened. Every content column is opened and sealed here, so that a codec needs no
other place. Without one, content is stored as it is.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import UUID

from django_agent_sessions.content.sealed_files import FileCipher
from django_agent_sessions.exceptions import (
    DecryptionError,
    DestroyedKeyError,
    EncryptionKeyError,
)


@dataclass(frozen=True, slots=True)
class Owned:
    """What belongs to no session, or to a new one: the owner's primary key, or None."""

    owner: Any


Holder: TypeAlias = UUID | Owned
"""Whose content it is: a session's key, or an owner. A codec chooses its key by it, and raises an
error if it does not know the owner."""


class Codec(ABC):
    """Seals texts before they are stored, and opens them after they were read."""

    refuses_search = False
    """Whether a search for words would miss what is encrypted."""
    hides_text = False
    """Whether the column ``text`` of messages stays empty, because it would repeat the payload."""
    hides_metadata = False
    """Whether the metadata of sessions is sealed, and cannot be filtered."""

    @abstractmethod
    def seal(self, row: UUID, column: str, text: str, holder: Holder) -> str:
        """Return the text to store. ``column`` is ``"<table>.<column>"``."""

    @abstractmethod
    def open(self, row: UUID, column: str, stored: str) -> str:
        """Return the sealed text; raise ValueError if it was sealed for another row or column."""

    def seal_bytes(self, row: UUID, column: str, data: bytes, holder: Holder) -> bytes:
        """Return the bytes to store."""
        return self.seal(row, column, data.decode("latin-1"), holder).encode()

    def open_bytes(self, row: UUID, column: str, stored: bytes) -> bytes:
        """Return the sealed bytes; raise ValueError as :meth:`open`."""
        return self.open(row, column, stored.decode()).encode("latin-1")

    def open_selected(self, row: str, columns: list[str], stored: str) -> str:
        """Return a text that was sealed for one of some columns of a row, whose key is given."""
        key = UUID(row)
        *others, last = columns
        for other in others:
            try:
                return self.open(key, other, stored)
            except ValueError:
                continue
        return self.open(key, last, stored)

    def is_current(self, stored: str, holder: Holder) -> bool:
        """Return whether a stored text has the form in which it would be written now."""
        return True

    def is_current_bytes(self, stored: bytes, holder: Holder) -> bool:
        """Return whether stored bytes have the form in which they would be written now."""
        return True

    def remember(self, session: UUID, owner: Any) -> None:  # noqa: B027 - a hook, empty by default
        """Learn the owner of a session that was read, which saves a query."""

    def file_cipher(self, session: UUID, sha256: str) -> FileCipher | None:
        """Return what encrypts the file of a new binary; None if files are stored as they are."""
        return None

    def find_file_cipher(self, key: UUID, session: UUID, sha256: str) -> FileCipher:
        """Return what decrypts the file of a binary, given the key of its row."""
        raise _no_encryption()

    def keys_of(self, owner: Any) -> list[str]:
        """Return the ids of an owner's keys, the owner given by the primary key."""
        return []

    def beginnings(self, keys: Sequence[str]) -> tuple[list[str], list[bytes]]:
        """Return how texts and bytes begin that one of some keys has sealed."""
        return [], []

    def destroy_keys(self, keys: Sequence[str]) -> None:  # noqa: B027 - as the one before
        """Delete keys for good, and forget them."""

    def forget(self) -> None:  # noqa: B027 - as the one before
        """Forget what was kept in memory, so that the next use reads it."""


def install(codec: Codec | None) -> Codec | None:
    """Store content with a codec from now on, or as plain text; return the previous codec."""
    global _codec
    previous, _codec = _codec, codec
    return previous


def installed() -> Codec | None:
    """Return the present codec."""
    return _codec


def is_plain() -> bool:
    """Return whether content is stored as it is."""
    return _codec is None


def neutral_text(text: str) -> str:
    """Return what the column ``text`` of a message with this text contains."""
    return "" if _codec is not None and _codec.hides_text else text


def hides_text() -> bool:
    """Return whether messages are written with an empty column ``text``."""
    return _codec is not None and _codec.hides_text


def refuses_search() -> bool:
    """Return whether words of messages cannot be searched, because they are encrypted."""
    return _codec is not None and _codec.refuses_search


def hides_metadata() -> bool:
    """Return whether the metadata of sessions is sealed."""
    return _codec is not None and _codec.hides_metadata


def remember(session: UUID, owner: Any) -> None:
    """Tell the codec the owner of a session that was read."""
    if _codec is not None:
        _codec.remember(session, owner)


def seal(row: UUID, column: str, text: str, holder: Holder) -> str:
    """Return the text to store in a column of a row."""
    return text if _codec is None else _codec.seal(row, column, text, holder)


def seal_bytes(row: UUID, column: str, data: bytes, holder: Holder) -> bytes:
    """Return the bytes to store in a column of a row."""
    if _codec is not None:
        return _codec.seal_bytes(row, column, data, holder)
    return plain_bytes(data)


def file_cipher(session: UUID, sha256: str) -> FileCipher | None:
    """Return what encrypts the file of a new binary; None if files are stored as they are."""
    return None if _codec is None else _codec.file_cipher(session, sha256)


def find_file_cipher(key: UUID, session: UUID, sha256: str) -> FileCipher:
    """Return what decrypts the file of a binary, given the key of its row."""
    if _codec is None:
        raise _no_encryption()
    return _codec.find_file_cipher(key, session, sha256)


def plain_bytes(data: bytes) -> bytes:
    """Return bytes as they are stored without encryption."""
    return PLAIN_BYTES + data if data.startswith((BYTES_ENVELOPE, PLAIN_BYTES)) else data


def open_bytes(row: UUID, column: str, stored: bytes) -> bytes:
    """Return the bytes of a column; raise ValueError if they cannot be opened."""
    if stored.startswith(PLAIN_BYTES):
        return stored[len(PLAIN_BYTES) :]
    if _codec is None:
        if stored.startswith(BYTES_ENVELOPE):
            raise _no_encryption()
        return stored
    return _codec.open_bytes(row, column, stored)


def open_selected(selected: str) -> str:
    """Return the text of a column that was selected with its row; raise ValueError if it is not.

    With a codec, a query selects ``<key>/<column>/<stored text>`` instead of the column: see
    ``models.stored_text``.
    """
    if _codec is None:
        if ENVELOPE.match(selected):
            raise _no_encryption()
        return selected
    row, column, stored = selected.split(SEPARATOR, 2)
    destroyed = _destroyed.get()
    if destroyed is None:
        return _codec.open_selected(row, split_columns(column), stored)
    if has_destroyed_key(stored):
        raise ValueError("the data key of a sealed text was destroyed")
    try:
        return _codec.open_selected(row, split_columns(column), stored)
    except DestroyedKeyError as error:
        destroyed.update(_codec.beginnings([error.key])[0])
        raise ValueError("the data key of a sealed text was destroyed") from None
    except DecryptionError:
        raise ValueError("a sealed text is damaged") from None


@contextmanager
def reading_damaged() -> Iterator[None]:
    """Within the block, read a payload that cannot be opened as corrupt.

    It was truncated, changed or moved, or its data key was destroyed. Otherwise it raises
    EncryptionError. A missing master key always does.
    """
    token = _destroyed.set(set())
    try:
        yield
    finally:
        _destroyed.reset(token)


def has_destroyed_key(stored: str) -> bool:
    """Return whether a text is sealed by a key that :func:`reading_damaged` found destroyed."""
    return any(map(stored.startswith, _destroyed.get() or ()))


def open_stored(row: UUID, columns: str, stored: str) -> str:
    """Return what a stored text of a row contains; :func:`either` has joined the columns."""
    if _codec is None:
        refuse_sealed(stored)
        return stored
    return _codec.open_selected(row.hex, split_columns(columns), stored)


def is_current(stored: str, holder: Holder) -> bool:
    """Return whether a stored text has the form in which it would be written now."""
    return _codec is None or _codec.is_current(stored, holder)


def is_selected(text: str) -> bool:
    """Return whether a text was selected with its row."""
    return _SELECTED.match(text) is not None


def marked(text: str) -> str:
    """Return a text that is not JSON as it is stored without being sealed."""
    return PLAIN_TEXT + text if text.startswith(PLAIN_TEXT) or ENVELOPE.match(text) else text


def unmarked(stored: str) -> str:
    """Return the text that :func:`marked` has been given."""
    return stored[1:] if stored.startswith(PLAIN_TEXT) else stored


def stored_part(selected: str) -> str:
    """Return the stored text of a column that was selected with its row."""
    return selected if _codec is None else selected.split(SEPARATOR, 2)[-1]


def refuse_sealed(text: str) -> None:
    """Raise EncryptionKeyError if a text is encrypted, and no codec opens it."""
    if _codec is None and ENVELOPE.match(text):
        raise _no_encryption()


def _no_encryption() -> EncryptionKeyError:
    return EncryptionKeyError(
        "the stored value is encrypted, and AGENT_SESSIONS['ENCRYPTION'] is not set"
    )


def split_columns(names: str) -> list[str]:
    """Return the columns that :func:`either` has joined."""
    return names.split(_OR)


def either(*columns: str) -> str:
    """Return the name of a column whose texts may have been sealed for one of several."""
    return _OR.join(columns)


ENVELOPE = re.compile(r"enc\d+:")
"""The beginning of an encrypted text, with its version. No JSON begins so."""
PLAIN_TEXT = "\x1f"
"""Stands before a plain text, if it is not JSON, that begins like an encrypted one."""
BYTES_ENVELOPE = b"\x00enc"
"""The beginning of encrypted bytes."""
PLAIN_BYTES = b"\x00plain:"
"""Stands before plain bytes that begin like encrypted ones."""
SEPARATOR = "/"
_OR = "|"
_SELECTED = re.compile(r"[0-9a-f-]{32,36}/[^/]+/")
_destroyed: ContextVar[set[str] | None] = ContextVar("agent_sessions_destroyed", default=None)
"""How texts begin whose data keys were found destroyed; None outside :func:`reading_damaged`."""
_codec: Codec | None = None
