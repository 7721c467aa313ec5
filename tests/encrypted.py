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
    "tests/blobs/test_agents.py::test_a_secret_in_a_document": "looks into a file",
    "tests/blobs/test_agents.py::test_an_agent_that_has_it": "looks into a file",
    "tests/blobs/test_serving.py::test_a_browser_is_sent": "redirects to a plain file",
    "tests/blobs/test_serving.py::test_a_file_that_is_no_image": "writes a plain file",
    "tests/blobs/test_serving.py::test_a_large_damaged_file": "writes a plain file",
    "tests/blobs/test_serving.py::test_a_storage_that_fails": "counts bytes of a file",
    "tests/blobs/test_serving.py::test_nothing_runs_from": "redirects to a plain file",
    "tests/rest/chat/assistant_ui/test_attacks.py::test_a_message_is": "reads the column text",
    "tests/rest/chat/assistant_ui/test_attacks.py::test_only_the": "reads the column text",
    "tests/rest/chat/assistant_ui/test_messages.py::test_a_message_with": "reads the column text",
    "tests/rest/chat/assistant_ui/test_messages.py::test_reading_and": "a statement for the key",
    "tests/rest/chat/assistant_ui/test_messages.py::test_what_the_client": "reads the column text",
    "tests/rest/chat/assistant_ui/test_statements.py::": "statements for the key",
    "tests/rest/chat/assistant_ui/test_threads.py::test_a_list_takes": "a statement for the key",
    "tests/rest/chat/assistant_ui/test_threads.py::test_owners_change": "reads the column text",
    "tests/rest/test_sessions.py::test_a_search_finds": "searches words of messages",
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
