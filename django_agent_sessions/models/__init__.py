"""The tables. Schema and constraints only.

The names are those of the Strands session data model, whose fields the tables mirror. A
``Session`` here is a session of an AI agent, not one of ``django.contrib.sessions``.
"""

from __future__ import annotations

from .auditing import AuditEvent
from .binaries import Blob, BlobReference
from .sessions import (
    MAIN_BRANCH,
    SessionRelated,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
    cascade_unless_held,
)
from .timeline import Branch, RunLease, Snapshot, StoredObject, StoredPart, TurnUsage
from .usage import UsageCursor, UsageRollup

__all__ = [
    "MAIN_BRANCH",
    "AuditEvent",
    "Blob",
    "BlobReference",
    "Branch",
    "SessionRelated",
    "RunLease",
    "Session",
    "SessionAgent",
    "SessionMessage",
    "SessionMultiAgent",
    "Snapshot",
    "StoredObject",
    "StoredPart",
    "TurnUsage",
    "UsageCursor",
    "UsageRollup",
    "cascade_unless_held",
]
