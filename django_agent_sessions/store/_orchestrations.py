"""Snapshots of orchestrators, for an SDK's storage."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.utils import timezone

from django_agent_sessions.content.masking.on_write import mask_on_write
from django_agent_sessions.db.retries import retry_reads
from django_agent_sessions.models import Session, SessionMultiAgent, Snapshot
from django_agent_sessions.models.content_field import sealed_columns
from django_agent_sessions.sql.statement_sizes import check_values_size
from django_agent_sessions.values.ids import new_id
from django_agent_sessions.values.records import Usage

from ._agent_states import LATEST_SNAPSHOT_ID, update_snapshot
from ._append import append_messages
from ._counters import touch
from ._held_copies import keep
from ._node_messages import has_node_messages, node_appends
from ._row_errors import readable_orchestrator, refuse_unreadable, refuse_unreadable_orchestrator
from ._snapshot_finding import SnapshotFinder
from .locking import with_lock


class OrchestratorSnapshotStore(SnapshotFinder):
    def save_orchestrator(
        self,
        session_id: str,
        multi_agent_id: str,
        plan: Callable[[UUID, int, Callable[[], tuple[Any, Any]]], tuple[Any, Any]],
        *,
        kind: str = "",
    ) -> tuple[UUID, int]:
        """Save the latest snapshot of an orchestrator.

        ``plan`` gets the session's key, its redaction epoch, and a function that reads the stored
        state and document; it returns the state and document to write. Returns the session's key
        and redaction epoch.
        """
        what = f"saving orchestrator {multi_agent_id!r} in session {session_id!r}"

        def save(session: Session) -> tuple[UUID, int]:
            now = timezone.now()
            agents = SessionMultiAgent.objects.using(self.using).filter(
                session=session.pk, multi_agent_id=multi_agent_id
            )
            key = agents.values_list("pk", flat=True).first()
            rows = Snapshot.objects.using(self.using).filter(
                multi_agent=key, snapshot_id=LATEST_SNAPSHOT_ID
            )

            def stored() -> tuple[Any, Any]:
                return (
                    agents.values_list("state", flat=True).first(),
                    rows.values_list("document", flat=True).first() if key else None,
                )

            state, document = map(mask_on_write, plan(session.pk, session.redaction_epoch, stored))
            check_values_size(self.using, state, document)
            if key is None:
                record = self.store.get(session_id)
                key = self.store.multi_agents.create(record, multi_agent_id, state, kind=kind).id
                rows = Snapshot.objects.using(self.using).filter(
                    multi_agent=key, snapshot_id=LATEST_SNAPSHOT_ID
                )
            else:
                before = readable_orchestrator(agents)
                refuse_unreadable(f"a snapshot of orchestrator {multi_agent_id!r}", rows.first())
                keep(self.using, session, agents, {"state": state})
                keep(self.using, session, rows, {"document": document})
                if has_node_messages(state):
                    for append in node_appends(
                        self.using, session, multi_agent_id, state, before=before
                    ):
                        append_messages(self.using, append)
                new_state = sealed_columns(SessionMultiAgent, key, {"state": state}, session.pk)
                agents.update(**new_state, updated_at=now)
            content = {"document": document, "messages": []}
            if not update_snapshot(rows, content, updated_at=now):
                Snapshot(
                    id=new_id(),
                    session_id=session.pk,
                    multi_agent_id=key,
                    created_at=now,
                    updated_at=now,
                    **content,
                ).save(using=self.using, force_insert=True)
            touch(self.using, session.pk, Usage())
            return session.pk, session.redaction_epoch

        lock = functools.partial(self._lock_by_name, session_id)
        return with_lock(self.using, lock, save, what=what)

    @retry_reads
    def load_orchestrator(
        self, session_id: str, multi_agent_id: str
    ) -> tuple[UUID, int, Any, Any] | None:
        """Read the latest snapshot of an orchestrator; None if it does not exist.

        Returns the session's key, its redaction epoch, the state and the document.
        """
        rows = self._named_snapshots(session_id).filter(
            multi_agent__multi_agent_id=multi_agent_id, snapshot_id=LATEST_SNAPSHOT_ID
        )
        row = rows.select_related("session", "multi_agent").first()
        if row is None or row.multi_agent is None:
            return None
        refuse_unreadable_orchestrator(row.multi_agent)
        refuse_unreadable(f"a snapshot of orchestrator {multi_agent_id!r}", row)
        return row.session_id, row.session.redaction_epoch, row.multi_agent.state, row.document
