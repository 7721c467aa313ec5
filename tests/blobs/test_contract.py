"""What every store promises, it promises too when each message has a file."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from django_agent_sessions import testing
from django_agent_sessions.values.owners import NOBODY
from tests.testing.test_contract_store import StoreDriver


class PictureDriver(StoreDriver):
    """Says nothing without a picture."""

    def payload(self, text: str, data: Any = None) -> Any:
        picture = hashlib.sha256(text.encode()).digest() * 10
        return {**super().payload(text, data), "picture": picture}


@pytest.mark.usefixtures("blob_folder")
class TestStoreWithFiles(
    testing.ConversationContract[PictureDriver],
    testing.AnyContextContract[PictureDriver],
    testing.BatchContract[PictureDriver],
    testing.PopContract[PictureDriver],
    testing.ClearContract[PictureDriver],
    testing.RedactionContract[PictureDriver],
):
    @pytest.fixture(autouse=True)
    def everything_is_large(self, settings, blob_folder):
        settings.AGENT_SESSIONS = {**settings.AGENT_SESSIONS, "BLOB_MIN_BYTES": 64}

    def driver(self, *, owner: Any = NOBODY, namespace: str = "") -> PictureDriver:
        return PictureDriver(owner, namespace)
