"""The store: creates, reads and changes sessions, agents, messages and orchestrators.

It needs no SDK. The sync methods use the ORM directly. Each has an async twin (``aappend`` for
``append``) that does not block the event loop.
"""

from __future__ import annotations

from ._agent_snapshots import Snapshots
from ._agents import DEFAULT_AGENT, Agents
from ._append import AppendSteps, run_steps
from ._append_groups import arun_steps
from ._branch_names import BranchNames, BranchSummary
from ._branch_steps import MAIN_NAME
from ._branches import Branches, Compacted
from ._context import StoreOperations
from ._feedback import MAX_COMMENT, Feedback
from ._messages import Messages
from ._multi_agents import MultiAgents
from ._new_sessions import session_record
from ._sessions import Sessions
from ._store import SessionStore
from ._turns import Turns

__all__ = [
    "DEFAULT_AGENT",
    "MAIN_NAME",
    "MAX_COMMENT",
    "Agents",
    "AppendSteps",
    "BranchNames",
    "BranchSummary",
    "Branches",
    "Compacted",
    "Feedback",
    "Messages",
    "MultiAgents",
    "SessionStore",
    "Sessions",
    "Snapshots",
    "StoreOperations",
    "Turns",
    "arun_steps",
    "run_steps",
    "session_record",
]
