"""Runs tests with encryption, as a project sets it up."""

from __future__ import annotations

from typing import Any

from django_agent_sessions.content import codec
from django_agent_sessions.encryption.encryption_codec import EncryptionCodec

from .sealed import ASK_STORED_TEXT

OPTIONS: dict[str, Any] = {"KEYS": {"test": bytes(range(32))}}
"""What ``AGENT_SESSIONS["ENCRYPTION"]`` contains in tests."""


def install() -> None:
    codec.install(EncryptionCodec(OPTIONS))


def forget() -> None:
    """Forgets keys, as other processes have none."""
    if isinstance(installed := codec.installed(), EncryptionCodec):
        installed.forget()


NEED_PLAIN_TEXT = {
    **ASK_STORED_TEXT,
    "tests/store/test_counting.py::test_a_batch_takes_every": "reads the column text",
    "tests/store/test_deleted_files.py::": "looks for a secret that is stored",
    "tests/store/test_errors.py::test_what_the_database_refuses": "refuses a text by a constraint",
    "tests/store/test_messages.py::test_a_message_is_replaced": "reads the column text",
    "tests/store/test_messages.py::test_a_message_of_several": "reads the column text",
    "tests/store/test_messages.py::test_neutral_columns": "reads the column text",
    "tests/store/test_messages.py::test_text_is_capped": "reads the column text",
    "tests/store/test_removal.py::test_a_redaction_overwrites": "reads the column text",
    "tests/store/test_removal.py::test_after_a_redaction_no_byte": "looks for a stored secret",
}
"""What `make test-encrypted` leaves out, and why."""
