"""The master keys of a project, which wrap the data keys."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.module_loading import import_string

from django_agent_sessions.exceptions import ConfigurationError, EncryptionKeyError

CURRENT = "CURRENT"
_MAX_ID = 64


@dataclass(frozen=True, slots=True, repr=False)
class MasterKeys:
    """All master keys by their ids, and the id of the one that wraps new data keys."""

    keys: Mapping[str, bytes]
    current: str

    def get(self, name: str) -> bytes:
        """Return a key; raise EncryptionKeyError if the project does not have it."""
        if name not in self.keys:
            raise EncryptionKeyError(
                f"AGENT_SESSIONS['ENCRYPTION']['KEYS'] has no master key {name!r}, which wraps a "
                "data key; add it again"
            )
        return self.keys[name]


def load(given: Any) -> MasterKeys:
    """Return the master keys of ``ENCRYPTION["KEYS"]``.

    ``given`` is a mapping of key ids to keys, or the dotted path of a callable that returns one.
    Raises ConfigurationError for a value that is not; its message contains no key.
    """
    where = "AGENT_SESSIONS['ENCRYPTION']['KEYS']"
    if isinstance(given, str):
        try:
            found = import_string(given)
        except ImportError as error:
            raise ConfigurationError(f"{where}: {given} cannot be imported: {error}") from None
        try:
            given = found() if callable(found) else found
        except Exception as error:
            # Its text may contain a key.
            raise ConfigurationError(f"{where}: {given} raised {type(error).__name__}") from error
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"{where} must be a dotted path, or a mapping of key ids to keys")
    keys = {
        str(name): _key(where, str(name), key) for name, key in given.items() if name != CURRENT
    }
    if not keys:
        raise ConfigurationError(f"{where} has no key; create one with os.urandom(32)")
    current = given.get(CURRENT, next(iter(keys)) if len(keys) == 1 else None)
    if current not in keys:
        raise ConfigurationError(
            f"{where}: CURRENT must be the id of the key that wraps new data keys; the ids are: "
            f"{', '.join(sorted(keys))}"
        )
    return MasterKeys(keys, current)


def _key(where: str, name: str, key: Any) -> bytes:
    if not 0 < len(name) <= _MAX_ID:
        raise ConfigurationError(f"{where}: a key's id must have 1 to {_MAX_ID} characters")
    if isinstance(key, str):
        try:
            key = base64.b64decode(key.replace("-", "+").replace("_", "/"), validate=True)
        except (binascii.Error, ValueError):
            raise ConfigurationError(f"{where}: key {name!r} is not base64") from None
    if not isinstance(key, bytes) or len(key) != 32:
        raise ConfigurationError(f"{where}: key {name!r} must be 32 bytes, or these in base64")
    return key
