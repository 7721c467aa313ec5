"""What every writer has: its journal, its chance, and the names of the sessions that all share."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django_agent_sessions.exceptions import AgentSessionsError, SessionConflictError

from . import marks
from .history import Journal, Outcome

GENERATION_SECONDS = 20
"""How long the sessions that all share are used, before new ones are begun."""

SHARED = {"shop": 3, "desk": 2, "lab": 2}
"""How many sessions of each sort are shared at a time: plain ones, OpenAI's, Strands'."""

# Of these kinds an error leaves nothing open, where the store says what it is.
_WHOLE = frozenset({"append", "append_many", "pop", "fork", "rewind", "redact", "state"})


@dataclass
class Assignment:
    """What a writer is told when it is started."""

    kind: str
    number: int
    incarnation: int
    seed: int
    journals: Path
    began: float
    pause: float


@dataclass
class Notes:
    """What an operation notes about its answer."""

    details: dict[str, Any] = field(default_factory=dict)


class Desk:
    """The working place of one writer."""

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        number, incarnation = assignment.number, assignment.incarnation
        # A string is hashed in the same way in each process.
        self.chance = random.Random(f"{assignment.seed}/{number}/{incarnation}")
        self.secrets: list[tuple[str, str]] = []
        self._journal = Journal(assignment.journals / f"{number}.{incarnation}.jsonl", number)
        self._count = 0

    def token(self) -> str:
        """Makes a token that nobody else has."""
        self._count += 1
        return f"w{self.assignment.number}.{self.assignment.incarnation}.{self._count}"

    def secret(self, token: str, share: float = 0.2) -> str | None:
        """Makes the secret of a message, if it shall have one."""
        if self.chance.random() >= share:
            return None
        return marks.secret_of(token, self.assignment.seed)

    def shared(self, sort: str) -> str:
        """Names one of the sessions that all share at the moment."""
        generation = int((time.monotonic() - self.assignment.began) // GENERATION_SECONDS)
        return f"{sort}-{self.chance.randrange(SHARED[sort])}-{generation}"

    @contextmanager
    def operation(
        self,
        kind: str,
        session: str,
        *,
        tokens: Sequence[str] | Mapping[str, str] = (),
        **details: Any,
    ) -> Iterator[Notes]:
        """Notes an operation before and after it; an error is noted and goes no further."""
        if not isinstance(tokens, Mapping):
            tokens = dict.fromkeys(tokens, session)
        number = self._journal.begin(kind, session, tokens=dict(tokens), **details)
        notes = Notes()
        try:
            yield notes
        except Exception as error:
            outcome = notes.details.pop("outcome", None) or outcome_of(kind, error)
            self._journal.end(
                number, outcome, error=chain(error), says=str(error)[:160], **notes.details
            )
        else:
            self._journal.end(number, Outcome.ACKNOWLEDGED, **notes.details)
            if details.get("secret") and kind != "redact":
                self.secrets.append((session, details["secret"]))


def outcome_of(kind: str, error: Exception) -> Outcome:
    """Tells what is known after an error."""
    if kind not in _WHOLE or not isinstance(error, AgentSessionsError):
        return Outcome.UNKNOWN
    if kind in ("pop", "redact") and isinstance(error, SessionConflictError):
        return Outcome.UNKNOWN
    return Outcome.FAILED


def chain(error: BaseException) -> str:
    """Name the types of an error and of what caused it, with the numbers that servers give."""
    names: list[str] = []
    found: BaseException | None = error
    while found is not None and len(names) < 4:
        number = next(iter(found.args), None)
        names.append(type(found).__name__ + (f" {number}" if isinstance(number, int) else ""))
        found = found.__cause__
    return " < ".join(dict.fromkeys(names))
