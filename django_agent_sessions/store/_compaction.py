"""Replace the end of a conversation with a shorter version of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django_agent_sessions.blobs import delete_unreferenced, is_enabled
from django_agent_sessions.exceptions import SessionConflictError
from django_agent_sessions.models import (
    Branch,
    Session,
    deletion,
)
from django_agent_sessions.models.removal import may_remove
from django_agent_sessions.values.records import AgentRecord, Append, BranchRecord

from ._append import append_messages
from ._branch_steps import move_to_branch
from ._content_writes import increment_redaction_epoch
from ._counters import recounting
from ._queries import conversation
from ._turns import forget_costs


class Compacted(NamedTuple):
    """The branch with the replaced messages, if they were kept, and the new redaction epoch."""

    branch: BranchRecord | None
    epoch: int


def replace_end(
    using: str,
    session: Session,
    agent: AgentRecord,
    messages: Sequence[Any],
    replaced: Sequence[UUID],
    *,
    keep_history: bool,
    what: str,
) -> Compacted:
    """Replace the last messages of a branch, in a transaction that has locked the session."""
    first = _first_replaced(using, agent, replaced, what)
    branch = None
    if keep_history or not may_remove(session):
        kind = Branch.Kind.COMPACTED
        branch = move_to_branch(using, agent, first - 1, None, kind, what)
    else:
        forget_costs(using, agent, first)
        rows = conversation(using, agent).filter(message_id__gte=first).order_by()
        with recounting(using, agent):
            deletion.delete_message_rows(rows)
        if is_enabled():
            delete_unreferenced(using, agent.session)
    append_messages(using, Append(agent, messages))
    # With this change the positions belong to other messages than before.
    written = conversation(using, agent).filter(message_id__gte=first).order_by()
    written.update(change=session.change + 1)
    return Compacted(branch, increment_redaction_epoch(using, session, redacted=False))


def _first_replaced(using: str, agent: AgentRecord, replaced: Sequence[UUID], what: str) -> int:
    """Return the position of the first message; raise if they are not the last ones any more."""
    last = conversation(using, agent).order_by("-message_id").values_list("pk", "message_id")
    found = list(last[: len(replaced)])[::-1]
    if not found or [key for key, _ in found] != list(replaced):
        raise SessionConflictError(
            f"{what}: messages were written or deleted since the conversation was read"
        )
    return found[0][1]
