"""Fork a session: create a new session with a copy of another's history."""

from __future__ import annotations

import copy as copies
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from django_agent_sessions.db import notifications
from django_agent_sessions.exceptions import SessionConflictError, SessionNotFoundError
from django_agent_sessions.models import (
    MAIN_BRANCH,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
    Snapshot,
)
from django_agent_sessions.models.querysets import MessageQuerySet
from django_agent_sessions.values.ids import new_id, validate_id
from django_agent_sessions.values.records import AgentState, SessionRecord

from ._agent_snapshots import LATEST_SNAPSHOT_ID, references_to_window
from ._agents import agent_without_state
from ._base import retry_reads, tracked_atomic, write
from ._branches import BranchStore
from ._message_copies import copy_messages
from ._session_reading import session_record
from ._snapshot_documents import state_in_document, without_message_references
from .locking import lock_session

_MAX_FORKS = 10_000


class ForkStore(BranchStore):
    def fork(
        self,
        session: SessionRecord,
        *,
        at: UUID | None = None,
        session_id: str | None = None,
        title: str | None = None,
        external_id: str | None = None,
    ) -> SessionRecord:
        """Create a session with a copy of another session's history.

        Only visible content is copied: a redacted message is redacted in the fork too. An agent's
        state is restored from a snapshot of that position if there is one; otherwise it is the
        present state, without the parts that refer to messages outside the fork. Orchestrators are
        copied only if ``at`` is None. Snapshots and side branches are not copied.

        Args:
            session: The session to fork.
            at: Primary key of the last message to copy; of other agents, the messages written
                before it are copied. None copies all.
            session_id: Id of the new session; its primary key by default.
            title: Its title; by default that of the forked session.
            external_id: An id chosen by a client, unique among the owner's sessions.

        Returns:
            The new session; it has the same owner.

        Raises:
            SessionNotFoundError: The session or the message does not exist.
            SessionConflictError: The session id or the external id exists.
            InvalidIdError: The session id or the external id is invalid.
            BlobError: A large binary could not be copied; no session was created.
        """
        what = f"forking session {session.session_id!r}"
        key = new_id()
        name = str(key) if session_id is None else validate_id(session_id)
        if external_id is not None:
            validate_id(external_id, "external_id")

        def fork(unsure: bool) -> SessionRecord:
            with tracked_atomic(self.using):
                source = lock_session(self.using, session.id)
                if source is None or not self._reaches(source.owner_id):
                    raise SessionNotFoundError(f"{what}: the session was deleted")
                if unsure and (created := self._all().filter(pk=key).first()):
                    return session_record(created)
                if self._all().named(source.namespace, name).exists():
                    raise SessionConflictError(f"session {name!r} already exists")
                duplicates = self._all().filter(owner=source.owner_id, external_id=external_id)
                if external_id is not None and duplicates.exists():
                    raise SessionConflictError(
                        f"{what}: another session has this external id; choose another one"
                    )
                return session_record(self._fork(source, key, name, title, at, external_id, what))

        created = write(self.using, fork, what=what)
        notifications.notify_written(self.using, key)
        return created

    async def afork(
        self,
        session: SessionRecord,
        *,
        at: UUID | None = None,
        session_id: str | None = None,
        title: str | None = None,
        external_id: str | None = None,
    ) -> SessionRecord:
        """Async twin of :meth:`fork`."""
        return await self._arun(
            self.fork, session, at=at, session_id=session_id, title=title, external_id=external_id
        )

    @retry_reads
    def descendants(self, session: UUID) -> list[UUID]:
        """List the forks of a session, and the forks of those, recursively.

        Args:
            session: Primary key of the session.

        Returns:
            Primary keys of the existing forks of all owners, oldest first; at most 10,000.
        """
        rows = self._all().filter(pk=session).values_list("forked_from", flat=True)
        line = rows.first() or session
        forks = self._all().filter(forked_from=line).order_by("id")
        return [
            key
            for key, origin in forks.values_list("pk", "origin")[:_MAX_FORKS]
            if origin and str(session) in origin["fork"]["line"]
        ]

    async def adescendants(self, session: UUID) -> list[UUID]:
        """Async twin of :meth:`descendants`."""
        return await self._arun(self.descendants, session)

    # --- in a transaction, with the session's row locked --------------------------------------

    def _fork(
        self,
        source: Session,
        key: UUID,
        name: str,
        title: str | None,
        at: UUID | None,
        external_id: str | None,
        what: str,
    ) -> Session:
        messages = SessionMessage.objects.using(self.using).filter(session=source)
        last = None if at is None else messages.filter(pk=at).first()
        if at is not None and last is None:
            raise SessionNotFoundError(f"{what}: the session has no message {at}")
        now = timezone.now()
        target = Session(  # type: ignore[misc] # the external id is the one id that may be missing
            id=key,
            external_id=external_id,
            namespace=source.namespace,
            session_id=name,
            session_type=source.session_type,
            owner_id=source.owner_id,
            title=source.title if title is None else title[:255],
            metadata=copies.deepcopy(source.metadata),
            origin={
                "fork": {
                    "session": str(source.pk),
                    "message": str(at) if at else None,
                    "line": [*_ancestors(source), str(source.pk)],
                }
            },
            forked_from=source.forked_from or source.pk,
            created_at=now,
            updated_at=now,
            last_activity_at=now,
        )
        target.save(using=self.using, force_insert=True)
        copied = 0
        for agent in SessionAgent.objects.using(self.using).filter(session=source).order_by("id"):
            copied += self._fork_agent(agent, target, last, now)
        self._all().filter(pk=key).update(message_count=copied)
        target.message_count = copied
        if last is None:
            for row in SessionMultiAgent.objects.using(self.using).filter(session=source):
                row.pk, row.session, row.created_at, row.updated_at = new_id(), target, now, now
                row.save(using=self.using, force_insert=True)
        return target

    def _fork_agent(
        self, agent: SessionAgent, session: Session, last: SessionMessage | None, now: datetime
    ) -> int:
        branch = MAIN_BRANCH
        if last is not None and last.agent_id == agent.pk:
            branch = last.branch
        rows = SessionMessage.objects.using(self.using).conversation(agent.pk, branch)
        messages = _until(rows, agent, last)
        length = messages.count()
        complete = length == rows.count() and branch == MAIN_BRANCH
        state = self._state_at(agent, branch, length, complete=complete)
        target = SessionAgent(
            session=session,
            agent_id=agent.agent_id,
            dialect=agent.dialect,
            state=state.state,
            conversation_manager_state=state.conversation_manager_state,
            internal_state=state.internal_state,
            window=state.window,
            created_at=now,
            updated_at=now,
        )
        target.save(using=self.using, force_insert=True)
        return copy_messages(self.using, messages, agent_without_state(target))

    def _state_at(
        self, agent: SessionAgent, branch: int, length: int, *, complete: bool
    ) -> AgentState:
        """Return the agent's state at a length of the conversation, as far as it is known."""
        present = AgentState(
            agent.state, agent.conversation_manager_state, agent.internal_state, agent.window
        )
        if complete:
            return present
        snapshots = Snapshot.objects.using(self.using).filter(agent=agent.pk, branch=branch)
        snapshot = (
            snapshots.filter(length=length)
            .exclude(snapshot_id=LATEST_SNAPSHOT_ID)
            .order_by("-id")
            .first()
        )
        if snapshot is None:
            return without_message_references(present)
        state = state_in_document(snapshot.document)
        return AgentState(
            state.state,
            state.conversation_manager_state,
            state.internal_state,
            references_to_window(snapshot.messages, length),
        )


def _ancestors(session: Session) -> list[str]:
    """Return the primary keys of a session's ancestors, oldest first."""
    origin: Any = session.origin
    return list(origin["fork"]["line"]) if session.forked_from else []


def _until(
    rows: MessageQuerySet, agent: SessionAgent, last: SessionMessage | None
) -> MessageQuerySet:
    """Filter the messages up to and including a message."""
    if last is None:
        return rows
    if last.agent_id == agent.pk:
        return rows.filter(message_id__lte=last.message_id)
    # Cut at the first later message, so that positions stay dense.
    first_later = (
        rows.filter(created_at__gt=last.created_at).values_list("message_id", flat=True).first()
    )
    return rows if first_later is None else rows.filter(message_id__lt=first_later)
