"""Find and delete snapshots by the ids that they are stored under."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import connections
from django.db.models import F, Q, QuerySet

from django_agent_sessions.db.retries import retry_reads, tracked_atomic, write
from django_agent_sessions.models import Session, Snapshot
from django_agent_sessions.models.deletion import ENCRYPTED
from django_agent_sessions.models.querysets import begins_with, key_condition

from ._agent_states import LATEST_SNAPSHOT_ID
from ._context import StoreOperations
from ._queries import session_rows
from .locking import lock_session


class SnapshotIds(NamedTuple):
    """The ids that identify a snapshot."""

    namespace: str
    session_id: str
    agent_id: str | None
    multi_agent_id: str | None
    snapshot_id: str


@dataclass(frozen=True, slots=True)
class SnapshotFilter:
    """A filter for snapshots: by namespace, and optionally by session and agent."""

    namespace: str
    include_nested: bool = False
    session_id: str | None = None
    session_prefix: str = ""
    agent_id: str | None = None


class SnapshotFinder(StoreOperations):
    @retry_reads
    def snapshot_names(self, places: Sequence[SnapshotFilter]) -> list[SnapshotIds]:
        """List the snapshots that match any of the filters."""
        condition = Q()
        for place in places:
            condition |= _condition(place)
        rows = Snapshot.objects.using(self.using).filter(
            condition, session__scope=self._context.scope
        )
        # An SDK has no other snapshots of orchestrators.
        rows = rows.exclude(~Q(snapshot_id=LATEST_SNAPSHOT_ID), multi_agent__isnull=False)
        rows = rows.filter(self._context.reach.condition("session__owner"))
        names = rows.order_by().values_list(
            "session__namespace",
            "session__session_id",
            "agent__agent_id",
            "multi_agent__multi_agent_id",
            "snapshot_id",
        )
        return [SnapshotIds._make(row) for row in names]

    def delete_snapshot(
        self, session_id: str, snapshot_id: str, *, agent_id: str = "", multi_agent_id: str = ""
    ) -> bool:
        """Delete a snapshot; its messages stay. Raises ``LegalHoldError`` under legal hold."""
        what = "deleting a snapshot"
        rows = self._named_snapshots(session_id).filter(snapshot_id=snapshot_id)
        if agent_id:
            rows = rows.filter(agent__agent_id=agent_id)
        else:
            rows = rows.filter(multi_agent__multi_agent_id=multi_agent_id)

        def delete(unsure: bool) -> bool:
            with tracked_atomic(self.using):
                found: Any = rows.values_list("pk", "session").first()
                if found is None:
                    return unsure
                key, owner = found
                lock_session(self.using, owner, removes=True, what=what)
                session_rows(self.using).filter(pk=owner).update(change=F("change") + 1)
                return bool(Snapshot.objects.using(self.using).filter(pk=key).delete()[0])

        return write(self.using, delete, what=what)

    def _lock_by_name(self, session_id: str) -> Session:
        weaker = connections[self.using].features.has_select_for_no_key_update
        named = self._context.sessions().filter_key(self._context.key(session_id))
        rows = named.select_for_update(no_key=weaker).defer(*ENCRYPTED)
        session = rows.first()
        if session is None:
            self.store.open(session_id)
            session = rows.first()
        if session is None:
            raise self._context.not_found(session_id)
        return session

    def _named_snapshots(self, session_id: str) -> QuerySet[Snapshot]:
        return Snapshot.objects.using(self.using).filter(
            self._context.reach.condition("session__owner"),
            key_condition(self._context.key(session_id), "session__"),
        )


def _condition(place: SnapshotFilter) -> Q:
    if place.include_nested:
        if not place.namespace:
            return Q(session__isnull=False)
        return begins_with("session__namespace", place.namespace)
    condition = Q(session__namespace=place.namespace)
    if place.session_id is not None:
        condition &= Q(session__session_id=place.session_id)
    elif place.session_prefix:
        condition &= begins_with("session__session_id", place.session_prefix)
    return (
        condition & Q(agent__agent_id=place.agent_id) if place.agent_id is not None else condition
    )
