"""The run of an agent that the present code belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple, TypeAlias
from uuid import UUID

from .ids import SessionKey


class QuestionKey:
    """A client's id of the user's message that a run answers.

    The adapters store it as the ``external_id`` of the first message of the user that the run
    writes, in one session: ``session``, or the first one.
    """

    def __init__(
        self,
        external_id: str,
        session: SessionKey | None = None,
        stored_text: str | None = None,
        sent_text: str = "",
    ) -> None:
        self._external_id: str | None = external_id
        self._session = session
        self._stored_text = stored_text
        self._sent_text = sent_text

    def take(self, session: SessionKey, text: str) -> tuple[str | None, bool]:
        """Return the id for a message of the user, and whether the message is stored already."""
        if self._external_id is None or self._session not in (None, session):
            return None, False
        external_id, self._external_id = self._external_id, None
        if self._stored_text is None:
            return external_id, False
        return None, text == self._stored_text or self._contains_sent_text(text)

    def _contains_sent_text(self, text: str) -> bool:
        """Return whether a message is what the client sent again, perhaps with lines around it.

        Its stored text differs if it was redacted, or masked when it was written.
        """
        return bool(self._sent_text) and f"\n{self._sent_text}\n" in f"\n{text}\n"


class RunContext(NamedTuple):
    """Data that the store records about a run, besides the arguments of a call.

    Attributes:
        run_id: Id of the invocation, for the messages that agents write, and those that are
            appended without another one.
        actor: The actor, for the audit trail: a user, or the name of a program.
        author: The primary key, as text, of the user who writes in another user's session. New
            messages with the role ``user`` get it, unless they have an author of their own.
        question: The client's id of the user's message that the run answers.
    """

    run_id: UUID | None = None
    actor: Any = None
    author: str = ""
    question: QuestionKey | None = None


WriteKind: TypeAlias = Literal[
    "append", "branch", "clear", "feedback", "fork", "import", "pop", "redact", "snapshot", "update"
]
"""What a write did."""


class SessionWrite(NamedTuple):
    """A committed write to a session.

    Attributes:
        using: The alias of its database.
        session: Primary key of the session.
        kind: What the write did.
        run: The run that it belongs to.
    """

    using: str
    session: UUID
    kind: WriteKind
    run: RunContext


_current: ContextVar[RunContext] = ContextVar("agent_sessions_run", default=RunContext())  # noqa: B039 - it is immutable


def current_run() -> RunContext:
    """Return the run of the present thread or task; an empty one outside a run."""
    return _current.get()


@contextmanager
def run_context(
    run_id: UUID | None = None,
    actor: Any = None,
    author: str = "",
    *,
    question: QuestionKey | str | None = None,
) -> Iterator[RunContext]:
    """Set the run for a block of code, including the threads that the store uses in it.

    Args:
        run_id: See :class:`RunContext`; by default that of the block around it.
        actor: See :class:`RunContext`; by default that of the block around it.
        author: See :class:`RunContext`; by default that of the block around it.
        question: A client's id of the user's message that the run answers. It becomes the
            ``external_id`` of the first message of the user that an agent of the SDKs writes.
    """
    outer = _current.get()
    run = RunContext(
        outer.run_id if run_id is None else run_id,
        outer.actor if actor is None else actor,
        author or outer.author,
        QuestionKey(question) if isinstance(question, str) else question or outer.question,
    )
    token = _current.set(run)
    try:
        yield run
    finally:
        _current.reset(token)
