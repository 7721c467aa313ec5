"""What an import did, and what it is told from its beginning on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .sources import Skipped

_MOST_SKIPPED = 10_000


@dataclass(slots=True)
class ImportReport:
    """What an import did; of a dry run, what it would do.

    Attributes:
        made: How many sessions it made.
        continued: How many it found half-way and completed.
        unchanged: How many were complete already.
        left_out: How many it did not take.
        messages: How many messages it wrote.
        skipped: What it did not take, and why: the first ten thousand.
        skips: How many there were of these.
        errors: How many of them somebody should look at.
    """

    made: int = 0
    continued: int = 0
    unchanged: int = 0
    left_out: int = 0
    messages: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    skips: int = 0
    errors: int = 0

    @property
    def sessions(self) -> int:
        """How many sessions it is done with."""
        return self.made + self.continued + self.unchanged + self.left_out

    def skip(self, skipped: Skipped) -> None:
        """Notes something that was not taken."""
        self.skips += 1
        self.errors += skipped.error
        if len(self.skipped) < _MOST_SKIPPED:
            self.skipped.append(skipped)


@dataclass(frozen=True, slots=True)
class Run:
    """One import."""

    kind: str
    using: str
    dry_run: bool
    batch: int
    progress: Callable[[ImportReport], None]
    report: ImportReport = field(default_factory=ImportReport)
