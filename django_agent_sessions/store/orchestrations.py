"""Snapshots of orchestrators: their state, which others read too, and the rest."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.db.models import F
from django.utils import timezone

from django_agent_sessions.ids import new_id
from django_agent_sessions.models import Session, SessionMultiAgent, Snapshot
from django_agent_sessions.records import Usage

from .alone import alone
from .base import repeatable
from .cleaning import clean
from .moments import LATEST
from .multi_agents import MultiAgentStore
from .snapshot_finding import SnapshotFinder
from .statement_sizes import check_values_size


class OrchestratorSnapshotStore(SnapshotFinder, MultiAgentStore):
    """The part of the store that keeps snapshots of orchestrators for an SDK's storage."""

    def save_orchestrator(
        self,
        session_id: str,
        multi_agent_id: str,
        plan: Callable[[int, Callable[[], tuple[Any, Any]]], tuple[Any, Any]],
        *,
        kind: str = "",
    ) -> tuple[UUID, int]:
        """Writes the latest snapshot of an orchestrator."""
        what = f"saving orchestrator {multi_agent_id!r} in session {session_id!r}"

        def save(session: Session) -> tuple[UUID, int]:
            now = timezone.now()
            agents = SessionMultiAgent.objects.using(self.using).filter(
                session=session.pk, multi_agent_id=multi_agent_id
            )
            key = agents.values_list("pk", flat=True).first()
            rows = Snapshot.objects.using(self.using).filter(multi_agent=key, snapshot_id=LATEST)

            def stored() -> tuple[Any, Any]:
                return (
                    agents.values_list("state", flat=True).first(),
                    rows.values_list("document", flat=True).first() if key else None,
                )

            state, document = map(clean, plan(session.redaction_epoch, stored))
            check_values_size(self.using, state, document)
            if key is None:
                record = self.get(session_id)
                key = self.create_multi_agent(record, multi_agent_id, state, kind=kind).id
                rows = Snapshot.objects.using(self.using).filter(
                    multi_agent=key, snapshot_id=LATEST
                )
            else:
                agents.update(state=state, updated_at=now)
            columns = {"document": document, "messages": [], "updated_at": now}
            if not rows.update(revision=F("revision") + 1, **columns):
                Snapshot(
                    id=new_id(),
                    session_id=session.pk,
                    multi_agent_id=key,
                    created_at=now,
                    **columns,
                ).save(using=self.using, force_insert=True)
            self.touch(session.pk, Usage())
            return session.pk, session.redaction_epoch

        lock = functools.partial(self._lock_by_name, session_id)
        return alone(self.using, lock, save, what=what)

    @repeatable
    def load_orchestrator(
        self, session_id: str, multi_agent_id: str
    ) -> tuple[UUID, int, Any, Any] | None:
        """Reads the latest snapshot of an orchestrator."""
        rows = self._named_snapshots(session_id).filter(
            multi_agent__multi_agent_id=multi_agent_id, snapshot_id=LATEST
        )
        row = rows.select_related("session", "multi_agent").first()
        if row is None or row.multi_agent is None:
            return None
        return row.session_id, row.session.redaction_epoch, row.multi_agent.state, row.document
