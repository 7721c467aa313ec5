"""Pages of an agent's branches, and of their messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django_agent_sessions.records import BranchRecord

from .pagination import AFTER, BEFORE, ORDER, RAW, KeyPagination, MessagePagination


class BranchMessagePagination(MessagePagination):
    """Pages of one branch of a conversation."""

    parameters = (ORDER, RAW)


class BranchPagination(KeyPagination):
    """Pages of an agent's branches, in order of their numbers."""

    places = ()

    def read(
        self, request: Any, branches: Callable[[], Sequence[BranchRecord]], view: Any = None
    ) -> Sequence[BranchRecord]:
        """Reads a page."""
        self.refuse_unknown(request, view)
        limit = self.limit(request)
        side, number = self.read_cursor(request) or (AFTER, -1)
        found = branches()
        earlier = [one for one in found if one.number < number]
        later = [one for one in found if one.number > number]
        rows = earlier[-limit:] if side == BEFORE else later[:limit]
        if rows and rows[0].number != found[0].number:
            self.previous_url = self.cursor_url(request, BEFORE, rows[0].number)
        if rows and rows[-1].number != found[-1].number:
            self.next_url = self.cursor_url(request, AFTER, rows[-1].number)
        return rows
