"""What of the contract of every adapter holds for files too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import FileSystemStorage

from django_agent_sessions.adapters.strands import StorageSessionRepository
from django_agent_sessions.interchange.strands_layout import Layout
from django_agent_sessions.testing import Contract, ConversationContract
from django_agent_sessions.values.owners import NOBODY
from tests.adapters.strands.test_contract import MessageDriver, RepositoryDriver


class StorageDriver(RepositoryDriver):
    """Builds a repository for each call; a namespace is a prefix."""

    def __init__(self, path: Path, namespace: str) -> None:
        MessageDriver.__init__(self, None, namespace)
        # The same as the one on the database, for what the driver does with it.
        repository: Any = StorageSessionRepository(FileSystemStorage(path), namespace or "files")
        self.repository = repository


class TestContract(Contract[StorageDriver]):
    """Of the contract of every adapter, what holds without owners and transactions."""

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path) -> None:
        self.path = tmp_path

    def driver(self, *, owner: Any = NOBODY, namespace: str = "") -> StorageDriver:
        return StorageDriver(self.path, namespace)

    def positions(self, session_id: str) -> list[int]:
        layout = Layout(FileSystemStorage(self.path), "files")
        return layout.message_numbers(session_id, RepositoryDriver.agent_id)

    def message_count(self, session_id: str) -> int:
        return len(self.positions(session_id))  # Files have no counter.

    test_order = ConversationContract.test_messages_stay_in_order_at_dense_positions
    test_writers = ConversationContract.test_writers_at_the_same_time_all_keep_their_messages
    test_spaces = ConversationContract.test_sessions_and_namespaces_do_not_meet
    test_looks = ConversationContract.test_ids_that_only_look_alike_are_different
    test_no_ids = ConversationContract.test_an_id_that_cannot_be_one_is_refused
