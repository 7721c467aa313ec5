"""Another thread of a test."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from django.db import connections


def elsewhere(function: Callable[[], Any]) -> Any:
    """Calls a function in a thread, which is in no run, and returns its outcome or its error."""
    found: list[Any] = []

    def call() -> None:
        try:
            found.append(function())
        except Exception as error:
            found.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=call)
    thread.start()
    thread.join(20)
    return found[0]
