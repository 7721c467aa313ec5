"""What the contracts share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import pytest
from django.contrib.auth import get_user_model
from django.db import connections, transaction

from django_agent_sessions.exceptions import InvalidIdError, PayloadError, SessionNotFoundError
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.owners import NOBODY

from .driver import Driver

D = TypeVar("D", bound=Driver)

HOSTILE_IDS = (
    "user-1",
    "'; DROP TABLE agent_sessions_session; --",
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "C:\\temp\\x",
    "100%_",
    " padded ",
    "%s %(name)s {0}",
    "josé 日本語 🐇",
    "x" * 255,
)
"""Ids that are only text, whatever they look like."""

IMPOSSIBLE_IDS = ("", "   ", ".", "..", "line\nbreak", "nul\x00", "\x1b[2J", "\ud800", "x" * 256)
"""Ids that are refused with a clear error."""


class Contract(Generic[D]):
    """The frame of a contract.

    The inheriting class implements :meth:`driver`, and names the errors of its SDK where those
    are not ours.
    """

    pytestmark = pytest.mark.django_db

    not_found: type[Exception] = SessionNotFoundError
    """Raised when a session is somebody else's."""

    invalid_id: type[Exception] = InvalidIdError
    """Raised for an id that cannot be one."""

    invalid_payload: type[Exception] = PayloadError
    """Raised for a message that is not JSON or over a limit."""

    def driver(self, *, owner: Any = NOBODY, namespace: str = "") -> D:
        """Makes a fresh driver, as another process would.

        Args:
            owner: A user; ``NOBODY`` for sessions without an owner.
            namespace: The space of session ids.
        """
        raise NotImplementedError

    def user(self, name: str) -> Any:
        """Makes a user; override it where the project's user model needs more than a name."""
        users = get_user_model()
        return users._default_manager.create(**{users.USERNAME_FIELD: name})

    def say(self, session_id: str, *texts: str, driver: D | None = None) -> None:
        """Appends a message for each text, one call each."""
        driver = driver or self.driver()
        for text in texts:
            driver.append(session_id, [driver.payload(text)])

    def said(self, session_id: str, *, driver: D | None = None) -> list[str]:
        """Reads in a fresh driver what was said; nothing if there is no such session."""
        driver = driver or self.driver()
        try:
            return driver.texts(driver.read(session_id))
        except self.not_found:
            return []

    def positions(self, session_id: str) -> list[int]:
        """Tells the positions of a conversation's messages in the database, in order."""
        found = SessionMessage.objects.filter(session__session_id=session_id)
        return list(found.order_by("message_id").values_list("message_id", flat=True))


def in_threads(*functions: Callable[[], Any]) -> list[Any]:
    """Runs functions at the same time, each in a thread of its own.

    Returns:
        What they returned, in order; the first error is raised.
    """
    outcomes: dict[int, Any] = {}
    errors: list[BaseException] = []
    start = threading.Barrier(len(functions))

    def run(number: int, function: Callable[[], Any]) -> None:
        try:
            start.wait(10)
            outcomes[number] = function()
        except BaseException as error:
            errors.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [outcomes[number] for number in range(len(functions))]


@contextmanager
def rolled_back() -> Iterator[None]:
    """Opens a transaction whose end undoes it."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def numbered(prefix: str, count: int) -> Sequence[str]:
    """Names texts: ``prefix-0``, ``prefix-1`` and so on."""
    return [f"{prefix}-{number}" for number in range(count)]
