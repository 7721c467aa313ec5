"""Encryption at rest: AES-256-GCM, with a data key for each owner.

A stored value names its data key, and is bound to its row and column. A data key is stored wrapped
by a master key of the project, so that deleting it makes everything of its owner unreadable, also
in backups and replicas. The extra ``encryption`` installs what this needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_agent_sessions import conf
from django_agent_sessions.content import codec

if TYPE_CHECKING:
    from .codec import EncryptionCodec


def configure(*, setting: str = conf.SETTING, **kwargs: Any) -> None:
    """Encrypt from now on what is written, if ``AGENT_SESSIONS["ENCRYPTION"]`` says so."""
    global _configured
    if setting != conf.SETTING:
        return
    options = conf.get_settings().ENCRYPTION if conf.are_valid("ENCRYPTION") else None
    if _configured is not None and codec.installed() is _configured:
        if options == _configured.options:
            return
        codec.install(None)
        _configured = None
    if options is not None:
        from .codec import EncryptionCodec

        _configured = EncryptionCodec(options)
        codec.install(_configured)


_configured: EncryptionCodec | None = None
