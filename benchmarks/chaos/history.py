"""What writers tried and what they were answered: operations, and the journals that keep them."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any


class Outcome(StrEnum):
    """What a writer knows of an operation."""

    ACKNOWLEDGED = "acknowledged"
    FAILED = "failed"
    """It was told that nothing was done."""
    UNKNOWN = "unknown"
    """It was told of an error after which it may be done or not, or was killed before."""


@dataclass(frozen=True)
class Operation:
    """One thing that a writer did."""

    writer: int  # one that is killed has a successor of the same number
    kind: str
    session: str
    started: float  # seconds of a clock that the machine has once
    ended: float = math.inf  # infinite if it was never answered
    outcome: Outcome = Outcome.UNKNOWN
    tokens: Mapping[str, str] = field(default_factory=dict)  # its messages and their sessions
    together: bool = False  # whether all of these are written or none
    secret: str | None = None  # what it says, or redacts
    taken: str | None = None  # the message that a pop took
    hits: int = 0  # how much a redaction found
    value: str | None = None  # the state that it wrote, or the name of the fork
    error: str | None = None
    says: str = ""

    @property
    def acknowledged(self) -> bool:
        """Whether it is certainly done."""
        return self.outcome is Outcome.ACKNOWLEDGED

    @property
    def possible(self) -> bool:
        """Whether it is done, or may be."""
        return self.outcome is not Outcome.FAILED


class Journal:
    """A file in which one process writes down each operation before it is tried and after it.

    Every line is on the disk before the next step, so that a process that is killed leaves behind
    what it had begun.
    """

    def __init__(self, file: Path, writer: int) -> None:
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        self._writer = writer
        self._number = 0

    def begin(self, kind: str, session: str, **details: Any) -> int:
        """Notes what is about to be tried."""
        self._number += 1
        known = {"writer": self._writer, "kind": kind, "session": session, **details}
        self._write({"n": self._number, "at": time.monotonic(), **known})
        return self._number

    def end(self, number: int, outcome: Outcome, **details: Any) -> None:
        """Notes how it ended."""
        self._write({"n": number, "at": time.monotonic(), "outcome": outcome, **details})

    def _write(self, line: Mapping[str, Any]) -> None:
        os.write(self._file, json.dumps(line).encode() + b"\n")
        os.fdatasync(self._file)


def read_journals(files: Iterable[Path]) -> list[Operation]:
    """Reads what writers left."""
    found = [operation for file in files for operation in _operations(file)]
    return sorted(found, key=lambda operation: operation.started)


def _operations(file: Path) -> Iterator[Operation]:
    begun: dict[int, Operation] = {}
    for line in file.read_text().splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            # Its writer was killed while it wrote this, and has done nothing after it.
            continue
        number, at = entry.pop("n"), entry.pop("at")
        if "outcome" in entry:
            outcome = Outcome(entry.pop("outcome"))
            begun[number] = replace(begun[number], ended=at, outcome=outcome, **entry)
        else:
            begun[number] = Operation(started=at, **entry)
    yield from begun.values()
