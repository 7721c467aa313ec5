"""What can be found: each kind with its code, how bad it is, and whether it can be mended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple
from uuid import UUID


class Severity(Enum):
    """How bad a finding is."""

    ERROR = "error"
    """Something was lost, cannot be read, or is shown to whom it should not be."""

    WARNING = "warning"
    """Something that is derived from something else, or counts it, is not as it should be."""

    NOTE = "note"
    """What may stay as it is; it does not make a check fail."""


class _Told(NamedTuple):
    code: str
    severity: Severity
    mendable: bool
    words: str


class Kind(Enum):
    """What a finding is. The codes are stable: programs may rely on them."""

    # --- conversations
    GAP = _Told("gap", Severity.WARNING, True, "positions are missing in a conversation")
    CORRUPT = _Told("corrupt", Severity.ERROR, False, "a message's payload cannot be read")
    ORPHAN_RESULT = _Told(
        "orphan-result", Severity.ERROR, False, "a tool's result answers no open call"
    )
    ANSWERED_TWICE = _Told(
        "answered-twice", Severity.NOTE, False, "a tool's call was answered once more"
    )
    CALL_ELSEWHERE = _Told(
        "call-elsewhere", Severity.NOTE, False, "a tool's result answers a call of another branch"
    )
    OPEN_CALL = _Told("open-call", Severity.NOTE, False, "a tool's call was never answered")
    NEUTRAL = _Told(
        "neutral-columns", Severity.WARNING, True, "role, text or figures are not the payload's"
    )
    MISPLACED = _Told(
        "misplaced", Severity.ERROR, False, "a row belongs to another session than its agent"
    )
    WINDOW = _Told("window", Severity.ERROR, False, "what an agent had in memory cannot be told")
    WINDOW_PAST_END = _Told(
        "window-past-end", Severity.NOTE, False, "a window names messages that were taken away"
    )
    # --- redaction
    UNHIDDEN = _Told(
        "unhidden", Severity.ERROR, False, "a redacted message has no redacted version"
    )
    UNHELD_ORIGINAL = _Told(
        "unheld-original", Severity.WARNING, False, "an edit's original is kept without a hold"
    )
    # --- time
    BRANCH = _Told("branch", Severity.ERROR, False, "a branch's number or name cannot be one")
    BRANCH_UNNAMED = _Told("branch-unnamed", Severity.WARNING, True, "a branch has no row")
    BRANCH_BASE = _Told(
        "branch-base", Severity.NOTE, False, "a branch is shorter than what it had in common"
    )
    SNAPSHOT = _Told("snapshot", Severity.ERROR, False, "a snapshot's references cannot be ones")
    SNAPSHOT_CUT = _Told(
        "snapshot-cut", Severity.NOTE, False, "messages of a snapshot were taken away since"
    )
    FORK = _Told("fork", Severity.ERROR, False, "a fork does not tell its line")
    # --- state
    CORRUPT_STATE = _Told(
        "corrupt-state", Severity.ERROR, False, "a state or snapshot cannot be read"
    )
    STORED_OBJECT = _Told(
        "stored-object", Severity.ERROR, False, "a stored object is not as long as it says"
    )
    # --- binaries
    BLOB_UNKNOWN = _Told(
        "blob-unknown", Severity.ERROR, False, "a message refers to a binary that has no row"
    )
    BLOB_USES = _Told(
        "blob-uses", Severity.WARNING, True, "it is noted wrongly which binaries are used"
    )
    BLOB_UNUSED = _Told("blob-unused", Severity.WARNING, True, "no message uses a binary")
    BLOB_MISSING = _Told("blob-missing", Severity.ERROR, False, "a binary's file is not there")
    BLOB_DAMAGED = _Told(
        "blob-damaged", Severity.ERROR, False, "a binary's file is not what was stored"
    )
    BLOB_FILES = _Told("blob-files", Severity.WARNING, True, "no row names files")
    BLOB_STORAGE = _Told("blob-storage", Severity.ERROR, False, "a storage could not be looked at")
    # --- figures
    COUNTERS = _Told(
        "counters", Severity.WARNING, True, "a session's counters are not what is in it"
    )
    COUNTING = _Told(
        "counting", Severity.NOTE, False, "counters are behind, and a turn may be under way"
    )
    USAGE = _Told("usage", Severity.WARNING, False, "rolled-up figures are not what was said")
    LEASE = _Told("lease", Severity.NOTE, True, "a lease expired long ago")

    @property
    def code(self) -> str:
        """The code."""
        return self.value.code

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return self.value.severity

    @property
    def mendable(self) -> bool:
        """Whether it can be mended without anything being lost."""
        return self.value.mendable

    @property
    def words(self) -> str:
        """What it is, for people."""
        return self.value.words


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: keys and positions, never content.

    Attributes:
        kind: What it is.
        session: Primary key of the session.
        agent: Primary key of the agent.
        branch: The number of the branch.
        position: The position in the conversation.
        row: Primary key of the row that it is about: a message, snapshot, branch, binary, …
        detail: What more there is to say: names of columns and figures.
    """

    kind: Kind
    session: UUID | None = None
    agent: UUID | None = None
    branch: int | None = None
    position: int | None = None
    row: UUID | None = None
    detail: str = ""
