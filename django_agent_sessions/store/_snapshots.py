"""Save snapshots for an SDK's storage: new messages, references to them, and the document."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import UUID

from django.utils import timezone

from django_agent_sessions.content import dialects
from django_agent_sessions.content.masking.on_write import mask_on_write
from django_agent_sessions.db.db_errors import RetryError
from django_agent_sessions.db.sqlite_secure_delete import secure_delete
from django_agent_sessions.exceptions import SessionConflictError, StaleSessionError
from django_agent_sessions.models import MAIN_BRANCH, Session, SessionMessage, Snapshot
from django_agent_sessions.sql.statement_sizes import check_values_size
from django_agent_sessions.values.ids import new_id
from django_agent_sessions.values.message_version import MessageVersion
from django_agent_sessions.values.records import AgentRecord, Usage

from ._agent_rows import agent_without_state
from ._agent_states import LATEST_SNAPSHOT_ID, update_snapshot
from ._counters import touch
from ._held_copies import keep
from ._queries import agent_rows, conversation, key_at, snapshot_rows
from ._row_errors import refuse_unreadable
from ._snapshot_reading import SnapshotReader
from ._snapshot_records import SaveState, SnapshotWrite
from .locking import with_lock


class SnapshotStore(SnapshotReader):
    def save_snapshot(
        self,
        session_id: str,
        agent_id: str,
        snapshot_id: str,
        plan: Callable[[SaveState], SnapshotWrite],
    ) -> SaveState:
        """Save a snapshot and its new messages.

        ``plan`` gets the agent's state under the session's lock, and returns what to write.
        """
        what = f"saving a snapshot of agent {agent_id!r} in session {session_id!r}"

        def save(session: Session) -> SaveState:
            try:
                head = self._head(session, agent_id)
                saving = plan(head)
                overwriting = secure_delete(self.using) if saving.updated else None
                with overwriting or contextlib.nullcontext():
                    return self._save(session, head, snapshot_id, saving)
            except StaleSessionError:
                raise
            except SessionConflictError as error:
                # A session manager appends without this lock.
                raise RetryError from error

        lock = functools.partial(self._lock_by_name, session_id)
        return with_lock(self.using, lock, save, what=what, savepoint=False)

    def _head(self, session: Session, agent_id: str) -> SaveState:
        agents = agent_rows(self.using).filter(session=session.pk, agent_id=agent_id)
        row = agents.defer("state", "conversation_manager_state", "internal_state").first()
        if row is None:
            record = self.store.get(session.session_id)
            agent = self.store.agents.open(record, agent_id, dialect=dialects.STRANDS)
        else:
            agent = agent_without_state(row)
        revision = self.latest_revision(agent)
        return SaveState(session.pk, session.redaction_epoch, agent, revision, self.last_row(agent))

    def _save(
        self, session: Session, head: SaveState, snapshot_id: str, saving: SnapshotWrite
    ) -> SaveState:
        agent = head.agent
        last, revision = head.last, head.revision
        document, messages = mask_on_write(saving.document), self._cleaned_messages(saving.messages)
        check_values_size(self.using, document, messages)
        if saving.keep is not None:
            self._move_to_side_branch(agent, saving.keep, saving.kind)
            last = self.last_row(agent)
        for position, message in saving.updated:
            self.store.messages.update(agent, position, message)
            last = self.last_row(agent)
        usage = Usage()
        if saving.appended:
            last, usage = self._append(agent, last, saving.appended)
        replaced = snapshot_rows(self.using, agent).filter(snapshot_id=snapshot_id)
        refuse_unreadable(f"a snapshot of agent {agent.agent_id!r}", replaced.first())
        keep(self.using, session, replaced, {"document": document, "messages": messages})
        self._write_row(head, snapshot_id, saving.length, last, document, messages)
        if snapshot_id == LATEST_SNAPSHOT_ID:
            revision = 0 if revision is None else revision + 1
            if saving.state is not None:
                self.store.agents.update(agent, saving.state)
        if usage != Usage() or snapshot_id == LATEST_SNAPSHOT_ID:
            touch(self.using, head.session, usage)
        return SaveState(head.session, head.epoch, agent, revision, last)

    def _append(
        self, agent: AgentRecord, last: MessageVersion | None, messages: Sequence[Any]
    ) -> tuple[MessageVersion, Usage]:
        expected = 0 if last is None else last.position + 1
        records = self.store.append_many(agent, messages, expected=expected, count=False)
        usage = sum((record.usage for record in records), Usage())
        return MessageVersion(records[-1].message_id, 0, records[-1].id), usage

    def _write_row(
        self,
        head: SaveState,
        snapshot_id: str,
        length: int,
        last: MessageVersion | None,
        document: Any,
        messages: list[Any],
    ) -> None:
        agent, now = head.agent, timezone.now()
        is_at_end = last is not None and length == last.position + 1
        columns = {
            "branch": MAIN_BRANCH,
            "length": length,
            "tail": last.id if last and is_at_end else key_at(self.using, agent, length - 1),
            "updated_at": now,
        }
        content = {"messages": messages, "document": document}
        rows = snapshot_rows(self.using, agent).filter(snapshot_id=snapshot_id)
        if not update_snapshot(rows, content, **columns):
            Snapshot(
                id=new_id(),
                session_id=head.session,
                agent_id=agent.id,
                snapshot_id=snapshot_id,
                created_at=now,
                **columns,
                **content,
            ).save(using=self.using, force_insert=True)

    def _move_to_side_branch(self, agent: AgentRecord, keep: int, kind: str) -> None:
        """Move later messages, and the latest snapshot with them, to a side branch."""
        branch = self.store.branches.set_aside(agent, keep, kind=kind)
        if branch is not None:
            latest = snapshot_rows(self.using, agent).filter(
                snapshot_id=LATEST_SNAPSHOT_ID, branch=MAIN_BRANCH
            )
            latest.filter(length__gt=keep + 1).update(branch=branch.number)

    def _cleaned_messages(self, messages: list[Any]) -> list[Any]:
        return [
            item if isinstance(item, list) else {**item, "message": mask_on_write(item["message"])}
            for item in messages
        ]

    # --- queries of plans ---------------------------------------------------------------------

    def is_there(self, agent: AgentRecord, row: MessageVersion) -> bool:
        """Return whether a message still has the same position."""
        return key_at(self.using, agent, row.position) == row.id

    def is_stored(
        self, agent: UUID, row: MessageVersion | None, last: MessageVersion | None
    ) -> bool:
        """Return whether a message that was the last one exists, perhaps on a side branch.

        ``last`` is the last message of the main branch now.
        """
        if row is None or (last is not None and last.id == row.id):
            return True
        return SessionMessage.objects.using(self.using).filter(agent=agent, pk=row.id).exists()

    def redacted_positions(self, agent: AgentRecord, positions: Iterable[int]) -> set[int]:
        """Return those of the positions whose messages were redacted."""
        rows = conversation(self.using, agent).filter(redacted_at__isnull=False)
        return set(rows.filter(message_id__in=list(positions)).values_list("message_id", flat=True))

    def is_in_other_snapshot(self, agent: AgentRecord, position: int, *, but: str) -> bool:
        """Return whether another snapshot may reference a message of the main branch."""
        rows = snapshot_rows(self.using, agent).exclude(snapshot_id=but)
        return rows.filter(branch=MAIN_BRANCH, length__gt=position).exists()

    def stored_snapshot(self, agent: AgentRecord, snapshot_id: str) -> tuple[Any, Any]:
        """Read a snapshot's document and references; (None, None) if it does not exist."""
        rows = snapshot_rows(self.using, agent).filter(snapshot_id=snapshot_id)
        return rows.values_list("document", "messages").first() or (None, None)
