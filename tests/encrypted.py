"""Runs tests with encryption, as a project sets it up."""

from __future__ import annotations

from typing import Any

from django_agent_sessions.content import codec
from django_agent_sessions.encryption.codec import EncryptionCodec

OPTIONS: dict[str, Any] = {"KEYS": {"test": bytes(range(32))}}
"""What ``AGENT_SESSIONS["ENCRYPTION"]`` contains in tests."""


def install() -> None:
    codec.install(EncryptionCodec(OPTIONS))


def forget() -> None:
    """Forgets keys, as other processes have none."""
    if isinstance(installed := codec.installed(), EncryptionCodec):
        installed.forget()
