"""The tables. Schema and constraints only.

The names are those of the Strands session data model, whose fields the tables mirror. A
``Session`` here is a session of an AI agent, not one of ``django.contrib.sessions``.
"""

from __future__ import annotations

from django.apps import apps

from django_agent_sessions.exceptions import ConfigurationError

if not apps.is_installed("django_agent_sessions"):
    raise ConfigurationError(
        'Add "django_agent_sessions" to INSTALLED_APPS and run manage.py migrate.'
    )

from .audit_event import AuditEvent
from .blob import Blob, BlobReference, FileToDelete
from .data_key import DataKey
from .feedback import MessageFeedback
from .held_copies import HeldCopy
from .operation import Operation
from .review import Label, Note, Review
from .sessions import (
    MAIN_BRANCH,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
    SessionRelated,
    cascade_unless_held,
)
from .sharing import Participant, ShareLink
from .timeline import (
    Branch,
    RedactedOriginal,
    RunLease,
    Snapshot,
    StoredObject,
    StoredPart,
    TurnUsage,
)
from .usage import UsageCursor, UsageRollup

__all__ = [
    "MAIN_BRANCH",
    "AuditEvent",
    "Blob",
    "BlobReference",
    "Branch",
    "DataKey",
    "FileToDelete",
    "HeldCopy",
    "Label",
    "MessageFeedback",
    "Note",
    "Operation",
    "Participant",
    "RedactedOriginal",
    "Review",
    "RunLease",
    "Session",
    "SessionAgent",
    "SessionMessage",
    "SessionMultiAgent",
    "SessionRelated",
    "ShareLink",
    "Snapshot",
    "StoredObject",
    "StoredPart",
    "TurnUsage",
    "UsageCursor",
    "UsageRollup",
    "cascade_unless_held",
]
