"""Encryption at rest: AES-256-GCM, with a data key for each owner.

A stored value names its data key, and is bound to its row and column. A data key is stored wrapped
by a master key of the project, so that deleting it makes everything of its owner unreadable, also
in backups and replicas. The extra ``encryption`` installs what this needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import connections

from django_agent_sessions import conf
from django_agent_sessions.content import codec

if TYPE_CHECKING:
    from .encryption_codec import EncryptionCodec


def configure(*, setting: str = conf.SETTING, **kwargs: Any) -> None:
    """Encrypt from now on what is written, if ``AGENT_SESSIONS["ENCRYPTION"]`` says so."""
    global _configured, _before
    if setting != conf.SETTING:
        return
    options = conf.get_settings().ENCRYPTION if conf.are_valid("ENCRYPTION") else None
    if _configured is not None and codec.installed() is _configured:
        if options == _configured.options:
            return
        codec.install(_before)
        _configured = None
    if options is not None:
        from .encryption_codec import EncryptionCodec

        _configured = EncryptionCodec(options)
        _before = codec.install(_configured)


def options_problem(options: dict[str, Any]) -> str:
    """Return the problem of a value of ``ENCRYPTION``; an empty text if it is valid."""
    where = f"{conf.SETTING}['ENCRYPTION']"
    if unknown := sorted(map(str, options.keys() - _OPTIONS)):
        return f"{where} has no key {unknown[0]!r}; the keys are: {', '.join(sorted(_OPTIONS))}"
    alias, seconds = options.get("KEY_DATABASE"), options.get("CACHE_SECONDS", 1)
    if alias is not None and alias not in connections:
        return f"{where}['KEY_DATABASE'] is {alias!r}, which is not an alias in DATABASES"
    if type(seconds) not in (int, float) or seconds < 0:
        return f"{where}['CACHE_SECONDS'] must be a number of seconds, 0 or more"
    for name in ("DECRYPT_ONLY", "METADATA"):
        if type(options.get(name, False)) is not bool:
            return f"{where}[{name!r}] must be True or False"
    return ""


_OPTIONS = frozenset({"KEYS", "KEY_DATABASE", "CACHE_SECONDS", "DECRYPT_ONLY", "METADATA"})
_configured: EncryptionCodec | None = None
_before: codec.Codec | None = None
