from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections

from .chats import NAMES, SDK, sdk_named


@pytest.fixture(params=NAMES)
def sdk(request) -> SDK:
    """The agents of one SDK: ``sdk("session").say("text")``."""
    return sdk_named(request.param)


@pytest.fixture
def in_thread() -> Callable[[Callable[[], Any]], Any]:
    """Runs something in a thread of its own, as another request would, and closes up after it."""
    return run_in_thread


def run_in_thread(function: Callable[[], Any]) -> Any:
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(function())
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert outcome, "it failed, or it hangs"
    return outcome[0]
