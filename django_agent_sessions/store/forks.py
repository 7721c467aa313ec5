"""Forks: a new session that goes on from somewhere in another."""

from __future__ import annotations

import copy as copies
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from django_agent_sessions import notifying
from django_agent_sessions.exceptions import SessionConflictError, SessionNotFoundError
from django_agent_sessions.ids import new_id, validate_id
from django_agent_sessions.models import (
    MAIN_BRANCH,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
    Snapshot,
)
from django_agent_sessions.querysets import MessageQuerySet
from django_agent_sessions.records import AgentState, SessionRecord

from .agents import agent_without_state
from .alone import lock_session
from .base import repeatable, whole, write
from .branches import BranchStore
from .copying import copy
from .documents import agent_state, settled
from .moments import LATEST, window
from .session_reading import session_record

_MOST = 10_000


class ForkStore(BranchStore):
    """The part of the store that forks sessions."""

    def fork(
        self,
        session: SessionRecord,
        *,
        at: UUID | None = None,
        session_id: str | None = None,
        title: str | None = None,
        external_id: str | None = None,
    ) -> SessionRecord:
        """Makes a session with a copy of another's history, which both then go on from.

        Copied is what people see: what was redacted is redacted in the fork, too. Each agent has
        its state as of then where a snapshot has it; where none has, it has its present state,
        without what speaks of messages that are not in the fork. Orchestrators are copied only
        with the whole session. Snapshots and side branches stay behind.

        Args:
            session: The session to fork.
            at: Primary key of the last message to copy; other agents' messages are copied as far
                as they were said before it. None copies all.
            session_id: Name of the new session; its primary key, if not given.
            title: Its title; that of the other session, if not given.
            external_id: The id that a client chose for it, unique among the owner's sessions.

        Returns:
            The new session, of the same owner.

        Raises:
            SessionNotFoundError: The session or the message does not exist (any more).
            SessionConflictError: There is a session of this name, or of this external id.
            InvalidIdError: The name or the external id cannot be one.
            BlobError: A large binary could not be copied; there is no new session.
        """
        what = f"forking session {session.session_id!r}"
        key = new_id()
        name = str(key) if session_id is None else validate_id(session_id)
        if external_id is not None:
            validate_id(external_id, "external_id")

        def fork(unsure: bool) -> SessionRecord:
            with whole(self.using):
                found = lock_session(self.using, session.id)
                if found is None or not self._reaches(found.owner_id):
                    raise SessionNotFoundError(f"{what}: it was deleted")
                if unsure and (made := self._all().filter(pk=key).first()):
                    return session_record(made)
                if self._all().named(found.namespace, name).exists():
                    raise SessionConflictError(f"session {name!r} exists already")
                taken = self._all().filter(owner=found.owner_id, external_id=external_id)
                if external_id is not None and taken.exists():
                    raise SessionConflictError(f"{what}: its external id is another session's")
                return session_record(self._fork(found, key, name, title, at, external_id, what))

        made = write(self.using, fork, what=what)
        notifying.written(self.using, key)
        return made

    async def afork(
        self,
        session: SessionRecord,
        *,
        at: UUID | None = None,
        session_id: str | None = None,
        title: str | None = None,
        external_id: str | None = None,
    ) -> SessionRecord:
        """Does what :meth:`fork` does."""
        return await self._arun(
            self.fork, session, at=at, session_id=session_id, title=title, external_id=external_id
        )

    @repeatable
    def descendants(self, session: UUID) -> list[UUID]:
        """Finds what was forked from a session, and from that, and so on.

        Args:
            session: Primary key of the session.

        Returns:
            Primary keys of the forks that there are, whoever owns them, the oldest first; at most
            10,000.
        """
        rows = self._all().filter(pk=session).values_list("forked_from", flat=True)
        line = rows.first() or session
        forks = self._all().filter(forked_from=line).order_by("id")
        return [
            key
            for key, origin in forks.values_list("pk", "origin")[:_MOST]
            if origin and str(session) in origin["fork"]["line"]
        ]

    async def adescendants(self, session: UUID) -> list[UUID]:
        """Does what :meth:`descendants` does."""
        return await self._arun(self.descendants, session)

    # --- in a transaction, with the session's row locked --------------------------------------

    def _fork(
        self,
        found: Session,
        key: UUID,
        name: str,
        title: str | None,
        at: UUID | None,
        external_id: str | None,
        what: str,
    ) -> Session:
        messages = SessionMessage.objects.using(self.using).filter(session=found)
        last = None if at is None else messages.filter(pk=at).first()
        if at is not None and last is None:
            raise SessionNotFoundError(f"{what}: it has no message {at}")
        now = timezone.now()
        made = Session(  # type: ignore[misc] # the external id is the one id that may be missing
            id=key,
            external_id=external_id,
            namespace=found.namespace,
            session_id=name,
            session_type=found.session_type,
            owner_id=found.owner_id,
            title=found.title if title is None else title[:255],
            metadata=copies.deepcopy(found.metadata),
            origin={
                "fork": {
                    "session": str(found.pk),
                    "message": str(at) if at else None,
                    "line": [*_line(found), str(found.pk)],
                }
            },
            forked_from=found.forked_from or found.pk,
            created_at=now,
            updated_at=now,
            last_activity_at=now,
        )
        made.save(using=self.using, force_insert=True)
        copied = 0
        for agent in SessionAgent.objects.using(self.using).filter(session=found).order_by("id"):
            copied += self._fork_agent(agent, made, last, now)
        self._all().filter(pk=key).update(message_count=copied)
        made.message_count = copied
        if last is None:
            for row in SessionMultiAgent.objects.using(self.using).filter(session=found):
                row.pk, row.session, row.created_at, row.updated_at = new_id(), made, now, now
                row.save(using=self.using, force_insert=True)
        return made

    def _fork_agent(
        self, agent: SessionAgent, made: Session, last: SessionMessage | None, now: datetime
    ) -> int:
        branch = MAIN_BRANCH
        if last is not None and last.agent_id == agent.pk:
            branch = last.branch
        rows = SessionMessage.objects.using(self.using).conversation(agent.pk, branch)
        kept = _until(rows, agent, last)
        length = kept.count()
        whole = length == rows.count() and branch == MAIN_BRANCH
        state = self._state_at(agent, branch, length, whole=whole)
        target = SessionAgent(
            session=made,
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
        return copy(self.using, kept, agent_without_state(target))

    def _state_at(
        self, agent: SessionAgent, branch: int, length: int, *, whole: bool
    ) -> AgentState:
        """The state of an agent when its conversation was so long, as far as it is known."""
        present = AgentState(
            agent.state, agent.conversation_manager_state, agent.internal_state, agent.window
        )
        if whole:
            return present
        there = Snapshot.objects.using(self.using).filter(agent=agent.pk, branch=branch)
        moment = there.filter(length=length).exclude(snapshot_id=LATEST).order_by("-id").first()
        if moment is None:
            return settled(present)
        found = agent_state(moment.document)
        return AgentState(
            found.state,
            found.conversation_manager_state,
            found.internal_state,
            window(moment.messages, length),
        )


def _line(session: Session) -> list[str]:
    """What a session was forked from, and that one, and so on: the first of them first."""
    origin: Any = session.origin
    return list(origin["fork"]["line"]) if session.forked_from else []


def _until(
    rows: MessageQuerySet, agent: SessionAgent, last: SessionMessage | None
) -> MessageQuerySet:
    """Keeps what was said before a message, and the message."""
    if last is None:
        return rows
    if last.agent_id == agent.pk:
        return rows.filter(message_id__lte=last.message_id)
    # The beginning of the conversation only: positions are dense.
    later = rows.filter(created_at__gt=last.created_at).values_list("message_id", flat=True).first()
    return rows if later is None else rows.filter(message_id__lt=later)
