from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_agent_sessions.content import codec
from tests.blobs.conftest import blob_folder  # noqa: F401 - a fixture

MASTER = bytes(range(32))


@pytest.fixture
def encrypt(settings) -> Callable[..., Any]:
    """Sets ``ENCRYPTION`` with a key and some options; returns the codec without cached keys."""

    def configure(**options: Any) -> Any:
        others = getattr(settings, "AGENT_SESSIONS", {})
        encryption = {"KEYS": {"one": MASTER}, **options}
        settings.AGENT_SESSIONS = {**others, "ENCRYPTION": encryption}
        return codec.installed()

    return configure


@pytest.fixture
def encrypted(encrypt) -> Any:
    return encrypt()
