"""What the database has of a journal."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .driving import Journal


@dataclass(frozen=True)
class Outcome:
    """The row of a context in the table."""

    context: str
    database: str
    acknowledged: int
    rows: int
    lost: int
    doubled: int
    undone: int
    escaped: int
    failed: int
    seconds: float
    allowed_failures: bool = False

    @property
    def holds(self) -> bool:
        """Whether the journal equals the rows, and nothing failed that should not."""
        return not (self.lost or self.doubled or self.escaped) and (
            self.allowed_failures or (self.failed == 0 and self.acknowledged > 0)
        )


def compare(journal: Journal, said: Counter[str], noted: Counter[str]) -> tuple[int, int, int, int]:
    """Count the rows, and the texts that were lost, are there twice, and escaped a rollback.

    A text is there if the user's message and, outside of jobs, the tool's row are there.
    """
    lost = sum(
        not said[text] or not (noted[text] or text.startswith("job-"))
        for text in journal.acknowledged
    )
    asked = [*journal.acknowledged, *journal.undone, *journal.failed]
    doubled = sum(count[text] > 1 for count in (said, noted) for text in asked)
    escaped = sum(text.startswith("undo-") or "-undo-" in text for text in {*said, *noted})
    rows = sum(text in said for text in asked)
    return rows, lost, doubled, escaped
