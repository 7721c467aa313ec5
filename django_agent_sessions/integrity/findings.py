"""The kinds of findings: code, severity, and whether they can be repaired."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple
from uuid import UUID


class Severity(Enum):
    """The severity of a finding."""

    ERROR = "error"
    """Data is lost, cannot be read, is visible to the wrong users, or is unprotected."""

    WARNING = "warning"
    """Derived data or a counter is wrong."""

    NOTE = "note"
    """No action is required; a check does not fail."""


class _KindInfo(NamedTuple):
    code: str
    severity: Severity
    mendable: bool
    words: str


class Kind(Enum):
    """The kinds of findings. The codes are stable, so programs may rely on them."""

    # --- conversations
    GAP = _KindInfo("gap", Severity.WARNING, True, "positions are missing in a conversation")
    CORRUPT = _KindInfo("corrupt", Severity.ERROR, False, "a message's payload cannot be read")
    ORPHAN_RESULT = _KindInfo(
        "orphan-result", Severity.ERROR, False, "a tool result does not match an open tool call"
    )
    ANSWERED_TWICE = _KindInfo(
        "answered-twice", Severity.NOTE, False, "a tool call has a second result"
    )
    CALL_ELSEWHERE = _KindInfo(
        "call-elsewhere", Severity.NOTE, False, "a tool result belongs to a call on another branch"
    )
    OPEN_CALL = _KindInfo("open-call", Severity.NOTE, False, "a tool call has no result")
    NEUTRAL = _KindInfo(
        "neutral-columns", Severity.WARNING, True, "role, text or figures do not match the payload"
    )
    MISPLACED = _KindInfo(
        "misplaced", Severity.ERROR, False, "a row and its agent belong to different sessions"
    )
    WINDOW = _KindInfo("window", Severity.ERROR, False, "an agent's window cannot be read")
    WINDOW_PAST_END = _KindInfo(
        "window-past-end", Severity.NOTE, False, "a window refers to deleted messages"
    )
    # --- time
    BRANCH = _KindInfo("branch", Severity.ERROR, False, "a branch has an invalid number or name")
    BRANCH_UNNAMED = _KindInfo("branch-unnamed", Severity.WARNING, True, "a branch has no row")
    BRANCH_BASE = _KindInfo(
        "branch-base",
        Severity.NOTE,
        False,
        "a branch is shorter than its common part with the parent branch",
    )
    SNAPSHOT = _KindInfo("snapshot", Severity.ERROR, False, "a snapshot has invalid references")
    SNAPSHOT_CUT = _KindInfo(
        "snapshot-cut", Severity.NOTE, False, "messages of a snapshot were deleted"
    )
    FORK = _KindInfo("fork", Severity.ERROR, False, "a fork does not record its origin")
    # --- state
    CORRUPT_STATE = _KindInfo(
        "corrupt-state", Severity.ERROR, False, "a state or snapshot cannot be read"
    )
    KEY_DESTROYED = _KindInfo(
        "key-destroyed", Severity.ERROR, False, "a session's data key was destroyed"
    )
    NOT_ENCRYPTED = _KindInfo(
        "not-encrypted",
        Severity.ERROR,
        False,
        "messages are plain text: run agent_sessions_encrypt encrypt",
    )
    STORED_OBJECT = _KindInfo(
        "stored-object", Severity.ERROR, False, "the parts of a stored object do not match its size"
    )
    # --- binaries
    BLOB_UNKNOWN = _KindInfo(
        "blob-unknown", Severity.ERROR, False, "a message refers to a binary that has no row"
    )
    BLOB_USES = _KindInfo(
        "blob-uses", Severity.WARNING, True, "the references to binaries are wrong"
    )
    BLOB_UNUSED = _KindInfo(
        "blob-unused", Severity.WARNING, True, "a binary is not used by any message"
    )
    BLOB_MISSING = _KindInfo("blob-missing", Severity.ERROR, False, "a binary's file is missing")
    BLOB_DAMAGED = _KindInfo("blob-damaged", Severity.ERROR, False, "a binary's file is damaged")
    BLOB_FILES = _KindInfo("blob-files", Severity.WARNING, True, "a storage has orphaned files")
    FILE_TO_DELETE = _KindInfo(
        "file-to-delete",
        Severity.WARNING,
        True,
        "files of deleted content are still in a storage",
    )
    BLOB_STORAGE = _KindInfo("blob-storage", Severity.ERROR, False, "a storage cannot be read")
    # --- figures
    COUNTERS = _KindInfo(
        "counters", Severity.WARNING, True, "a session's counters do not match its messages"
    )
    COUNTING = _KindInfo(
        "counting", Severity.NOTE, False, "counters are behind; a turn may be in progress"
    )
    USAGE = _KindInfo("usage", Severity.WARNING, False, "usage figures do not match the messages")
    # --- audit
    TRIGGER = _KindInfo(
        "trigger",
        Severity.ERROR,
        True,
        "a trigger of PostgreSQL that protects audit events or legal holds is not in force",
    )
    LEASE = _KindInfo("lease", Severity.NOTE, True, "a lease expired long ago")

    @property
    def code(self) -> str:
        """The stable code."""
        return self.value.code

    @property
    def severity(self) -> Severity:
        """The severity."""
        return self.value.severity

    @property
    def mendable(self) -> bool:
        """Whether it can be repaired without loss."""
        return self.value.mendable

    @property
    def words(self) -> str:
        """A description for people."""
        return self.value.words


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding: keys and positions, never content.

    Attributes:
        kind: The kind.
        session: Primary key of the session.
        agent: Primary key of the agent.
        branch: Number of the branch.
        position: Position in the conversation.
        row: Primary key of the affected row: a message, snapshot, branch, binary and so on.
        detail: Further information: names of columns and figures.
    """

    kind: Kind
    session: UUID | None = None
    agent: UUID | None = None
    branch: int | None = None
    position: int | None = None
    row: UUID | None = None
    detail: str = ""
