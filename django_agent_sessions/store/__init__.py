"""The store: creates, reads and changes sessions, agents, messages and orchestrators.

It needs no SDK. The sync methods use the ORM directly. Each has an async twin (``aappend`` for
``append``) that does not block the event loop.
"""

from __future__ import annotations

from ._agents import DEFAULT_AGENT
from ._branch_names import BranchNameStore, BranchSummary
from ._branch_steps import MAIN_NAME
from ._session_reading import session_record
from ._store import SessionStore

__all__ = [
    "DEFAULT_AGENT",
    "MAIN_NAME",
    "BranchNameStore",
    "BranchSummary",
    "SessionStore",
    "session_record",
]
