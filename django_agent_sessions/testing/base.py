"""Base class and helpers of the contracts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import pytest
from django.contrib.auth import get_user_model
from django.db import connections, transaction

from django_agent_sessions.exceptions import InvalidIdError, PayloadError, SessionNotFoundError
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.values.owners import NOBODY

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
"""Valid ids with characters that are special in SQL, HTML, paths and format strings."""

INVALID_IDS = ("", "   ", ".", "..", "line\nbreak", "nul\x00", "\x1b[2J", "\ud800", "x" * 256)
"""Invalid ids."""


class Contract(Generic[D]):
    """Base class of the contracts.

    A subclass implements :meth:`driver`, and sets the SDK's errors if they differ from those of
    this package.
    """

    pytestmark = pytest.mark.django_db

    not_found: type[Exception] = SessionNotFoundError
    """Raised for a session that has another owner."""

    invalid_id: type[Exception] = InvalidIdError
    """Raised for an invalid id."""

    invalid_payload: type[Exception] = PayloadError
    """Raised for a message that is not JSON or exceeds a limit."""

    def driver(self, *, owner: Any = NOBODY, namespace: str = "") -> D:
        """Return a new driver, as another process would create it.

        Args:
            owner: A user; or ``NOBODY``, for sessions without an owner.
            namespace: The namespace of session ids.
        """
        raise NotImplementedError

    def user(self, name: str) -> Any:
        """Create a user; override it if the project's user model requires more than a name."""
        users = get_user_model()
        return users._default_manager.create(**{users.USERNAME_FIELD: name})

    def say(self, session_id: str, *texts: str, driver: D | None = None) -> None:
        """Append a message for each text, with one call each."""
        driver = driver or self.driver()
        for text in texts:
            driver.append(session_id, [driver.payload(text)])

    def read_texts(self, session_id: str, *, driver: D | None = None) -> list[str]:
        """Return the texts of a conversation, read by a new driver; [] if there is no session."""
        driver = driver or self.driver()
        try:
            return driver.texts(driver.read(session_id))
        except self.not_found:
            return []

    def positions(self, session_id: str) -> list[int]:
        """Return the positions of a conversation's messages in the database, in order."""
        messages = SessionMessage.objects.filter(session__session_id=session_id)
        return list(messages.order_by("message_id").values_list("message_id", flat=True))

    def message_count(self, session_id: str) -> int:
        """Return the number of messages according to the session's own counter."""
        return Session.objects.get(session_id=session_id).message_count


def run_in_threads(*functions: Callable[[], Any]) -> list[Any]:
    """Run functions concurrently, each in its own thread.

    Returns:
        Their results, in order; the first error is raised.
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
def rolled_back_transaction() -> Iterator[None]:
    """Open a transaction and roll it back at the end."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def numbered_texts(prefix: str, count: int) -> Sequence[str]:
    """Return the texts ``prefix-0``, ``prefix-1`` and so on."""
    return [f"{prefix}-{number}" for number in range(count)]
