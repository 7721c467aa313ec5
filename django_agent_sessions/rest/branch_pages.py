"""Pages of an agent's branches and of a branch's messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django_agent_sessions.values.records import BranchRecord

from .pagination import AFTER, BEFORE, ORDER, RAW, KeysetPagination, MessagePagination


class BranchMessagePagination(MessagePagination):
    """Pages of one branch of a conversation."""

    parameters = (ORDER, RAW)


class BranchPagination(KeysetPagination):
    """Pages of an agent's branches, ordered by number."""

    places = ()

    def read(
        self, request: Any, branches: Callable[[], Sequence[BranchRecord]], view: Any = None
    ) -> Sequence[BranchRecord]:
        self.reject_unknown_parameters(request, view)
        limit = self.limit(request)
        side, number = self.read_cursor(request) or (AFTER, -1)
        records = branches()
        earlier = [branch for branch in records if branch.number < number]
        later = [branch for branch in records if branch.number > number]
        rows = earlier[-limit:] if side == BEFORE else later[:limit]
        if rows and rows[0].number != records[0].number:
            self.previous_url = self.cursor_url(request, BEFORE, rows[0].number)
        if rows and rows[-1].number != records[-1].number:
            self.next_url = self.cursor_url(request, AFTER, rows[-1].number)
        return rows
