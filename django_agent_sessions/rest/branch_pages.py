"""Pages of what belongs to an agent: branches, their messages, and snapshots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from rest_framework.exceptions import ValidationError

from django_agent_sessions.models import Snapshot
from django_agent_sessions.records import BranchRecord

from .pagination import AFTER, BEFORE, ORDER, RAW, KeyPagination, MessagePagination, cut


class BranchMessagePagination(MessagePagination):
    """Pages of one branch of a conversation."""

    parameters = (ORDER, RAW)


class BranchPagination(KeyPagination):
    """Pages of an agent's branches, in order of their numbers."""

    places = ()

    def read(
        self, request: Any, branches: Callable[[], Sequence[BranchRecord]], view: Any = None
    ) -> Sequence[BranchRecord]:
        """Reads a page.

        Args:
            request: The request.
            branches: Gives all branches in order.
            view: The view.

        Returns:
            The branches of the page.

        Raises:
            ValidationError: A parameter is not what it can be.
        """
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


class SnapshotPagination(KeyPagination):
    """Pages of an agent's snapshots, the newest first."""

    def read(self, request: Any, snapshots: QuerySet[Snapshot], view: Any = None) -> list[Snapshot]:
        """Reads a page.

        Args:
            request: The request.
            snapshots: The snapshots.
            view: The view.

        Returns:
            Those of the page.

        Raises:
            ValidationError: A parameter is not what it can be.
        """
        self.refuse_unknown(request, view)
        limit = self.limit(request)
        side, place = AFTER, self.given_key(request, AFTER)
        if place is not None and not snapshots.filter(pk=place).exists():
            # Whether it is nowhere, or somebody else's.
            raise ValidationError({AFTER: ["There is no such snapshot in this list."]})
        if cursor := self.read_cursor(request):
            side, place = cursor[0], UUID(cursor[1])
        backwards = side == BEFORE
        if place is not None:
            snapshots = snapshots.filter(**{"pk__gt" if backwards else "pk__lt": place})
        found = list(snapshots.order_by("pk" if backwards else "-pk")[: limit + 1])
        rows, earlier, later = cut(found, limit, backwards=backwards, from_start=place is None)
        if rows and earlier:
            self.previous_url = self.cursor_url(request, BEFORE, rows[0].pk.hex)
        if rows and later:
            self.next_url = self.cursor_url(request, AFTER, rows[-1].pk.hex)
        return rows
