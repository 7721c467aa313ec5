"""Which snapshots there are: found by what they are called, and deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.db import connections
from django.db.models import Q, QuerySet

from django_agent_sessions.models import Session, Snapshot
from django_agent_sessions.owners import reached
from django_agent_sessions.querysets import begins_with

from .base import repeatable, write
from .sessions import SessionWriter


class SnapshotName(NamedTuple):
    """What a snapshot is called."""

    namespace: str
    session_id: str
    agent_id: str | None
    multi_agent_id: str | None
    snapshot_id: str


@dataclass(frozen=True, slots=True)
class SnapshotPlace:
    """Where to look for snapshots.

    Attributes:
        namespace: The namespace of their sessions.
        below: Whether any namespace counts that begins so.
        session_id: Their session, if it is known.
        session_prefix: How the ids of their sessions begin.
        agent_id: Their agent, if it is known.
    """

    namespace: str
    below: bool = False
    session_id: str | None = None
    session_prefix: str = ""
    agent_id: str | None = None


class SnapshotFinder(SessionWriter):
    """The part of the store that finds snapshots."""

    @repeatable
    def snapshot_names(self, places: Sequence[SnapshotPlace]) -> list[SnapshotName]:
        """Lists snapshots.

        Args:
            places: Where to look.

        Returns:
            What they are called, in no order.
        """
        condition = Q()
        for place in places:
            condition |= _at(place)
        rows = Snapshot.objects.using(self.using).filter(condition)
        rows = rows.filter(reached(self.reach, "session__owner"))
        names = rows.order_by().values_list(
            "session__namespace",
            "session__session_id",
            "agent__agent_id",
            "multi_agent__multi_agent_id",
            "snapshot_id",
        )
        return [SnapshotName._make(row) for row in names]

    def delete_snapshot(
        self, session_id: str, snapshot_id: str, *, agent_id: str = "", multi_agent_id: str = ""
    ) -> bool:
        """Deletes a snapshot; its messages stay.

        Args:
            session_id: The session.
            snapshot_id: The snapshot; empty for the latest.
            agent_id: Its agent, or else
            multi_agent_id: its orchestrator.

        Returns:
            Whether there was one that is this owner's.

        Raises:
            LegalHoldError: The session is under legal hold.
        """
        rows = self._named_snapshots(session_id).filter(snapshot_id=snapshot_id)
        if agent_id:
            rows = rows.filter(agent__agent_id=agent_id)
        else:
            rows = rows.filter(multi_agent__multi_agent_id=multi_agent_id)

        def delete(unsure: bool) -> bool:
            key = rows.values_list("pk", flat=True).first()
            if key is None:
                return unsure
            return bool(Snapshot.objects.using(self.using).filter(pk=key).delete()[0])

        return write(self.using, delete, what="deleting a snapshot")

    def _lock_by_name(self, session_id: str) -> Session:
        rows = self._reachable().named(self.namespace, session_id)
        weaker = connections[self.using].features.has_select_for_no_key_update
        found = rows.select_for_update(no_key=weaker).first()
        if found is None:
            self.open(session_id)
            found = rows.select_for_update(no_key=weaker).first()
        if found is None:
            raise self._not_found(session_id)
        return found

    def _named_snapshots(self, session_id: str) -> QuerySet[Snapshot]:
        return Snapshot.objects.using(self.using).filter(
            reached(self.reach, "session__owner"),
            session__namespace=self.namespace,
            session__session_id=session_id,
        )


def _at(place: SnapshotPlace) -> Q:
    if place.below:
        if not place.namespace:
            return Q(session__isnull=False)
        return begins_with("session__namespace", place.namespace)
    found = Q(session__namespace=place.namespace)
    if place.session_id is not None:
        found &= Q(session__session_id=place.session_id)
    elif place.session_prefix:
        found &= begins_with("session__session_id", place.session_prefix)
    return found & Q(agent__agent_id=place.agent_id) if place.agent_id is not None else found
