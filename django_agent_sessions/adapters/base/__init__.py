"""What all adapters share; an adapter imports this package and no other adapter.

:class:`AdapterSession` is a session as an object of an adapter uses it: it selects the database
thread, opens the session, reloads after redactions and runs exclusively.
:class:`ConversationSession` is the same for an SDK that reads and writes one list of messages.
"""

from __future__ import annotations

from .adapter_session import (
    MAX_RELOADS,
    AdapterSession,
    Checkpoint,
    Known,
    Memory,
    check_dialect,
)
from .conversation import (
    MAIN_AGENT,
    ConversationMemory,
    ConversationSession,
    KnownConversation,
)
from .echo import texts_only
from .exclusive import ExclusiveRuns, exclusive_runs

__all__ = [
    "MAIN_AGENT",
    "MAX_RELOADS",
    "AdapterSession",
    "Checkpoint",
    "ConversationMemory",
    "ConversationSession",
    "ExclusiveRuns",
    "Known",
    "KnownConversation",
    "Memory",
    "check_dialect",
    "exclusive_runs",
    "texts_only",
]
