"""The report and the parameters of an import."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .sources import Skipped

_MOST_SKIPPED = 10_000


@dataclass(slots=True)
class ImportReport:
    """The result of an import or a dry run.

    Attributes:
        made: Number of created sessions.
        continued: Number of sessions that an earlier import began and this one completed.
        unchanged: Number of sessions that were complete already.
        left_out: Number of sessions that were not imported.
        messages: Number of written messages.
        skipped: Items that were not imported, with reasons; the first 10,000.
        skips: Number of all items that were not imported.
        errors: Number of these items that need attention.
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
        """The number of processed sessions."""
        return self.made + self.continued + self.unchanged + self.left_out

    def skip(self, skipped: Skipped) -> None:
        """Record an item that was not imported."""
        self.skips += 1
        self.errors += skipped.error
        if len(self.skipped) < _MOST_SKIPPED:
            self.skipped.append(skipped)


@dataclass(frozen=True, slots=True)
class ImportRun:
    """The parameters and the report of one import."""

    kind: str
    using: str
    dry_run: bool
    batch: int
    progress: Callable[[ImportReport], None]
    report: ImportReport = field(default_factory=ImportReport)
