"""Storing what the client says: once, under its own ids, and never over a redaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from rest_framework.exceptions import ValidationError

from django_agent_sessions.exceptions import SessionConflictError, SessionNotFoundError
from django_agent_sessions.ids import validate_id
from django_agent_sessions.models import Session
from django_agent_sessions.records import AgentRecord, Usage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.alone import alone_in
from django_agent_sessions.transcripts import ASSISTANT_UI

from . import AGENT_ID
from .finding import Found, by_digest, by_id, digest_of, messages_of
from .history import server_message

R = TypeVar("R")

_NO_PARENT = "There is no such message in this thread. Store messages in order, parents first."
_DERIVED = 32


class Keeper:
    """The client's messages of one session."""

    def __init__(self, store: SessionStore, session: Session) -> None:
        self._store = store
        self._session = session

    def keep(self, parent: str | None, name: str, content: dict[str, Any]) -> str:
        """Stores a message, or finds it: clients send whole threads again."""
        own = _own_id(content)
        if parent is not None:
            validate_id(parent, "parent_id")
        if own is not None and own == parent:
            raise ValidationError({"parent_id": ["A message is not its own parent."]})
        return self._locked(lambda row: self._keep(row, own, parent, name, content))

    def change(self, name: str, content: dict[str, Any]) -> None:
        """Changes what a message says; one that was redacted stays as it is."""
        own = _own_id(content)
        if own is not None and own != name:
            raise ValidationError({"content": ["Its id is not that of the message."]})
        self._locked(lambda row: self._change(row, name, content))

    def _locked(self, work: Callable[[Session], R]) -> R:
        # Two that send the same message, and a redaction, come one after the other.
        key = self._session.pk
        what = f"storing a message in session {key}"
        return alone_in(self._store.using, key, work, what=what, savepoint=False)

    def _keep(
        self,
        row: Session,
        own: str | None,
        parent: str | None,
        name: str,
        content: dict[str, Any],
    ) -> str:
        agent = self._agent(row)
        rows = messages_of(agent.id, self._store.using)
        known = by_id(rows, *(one for one in (own, parent) if one is not None))
        above = next((one for one in known if parent in one.names), None)
        behind = parent if above is None else above.id
        digest = digest_of(row.pk, behind, name, content)
        if own is None:
            found = by_digest(rows, digest)
        else:
            found = next((one for one in known if own in one.names), None)
        if found is not None:
            self._rewrite(row, agent, found, name, content)
            return found.id
        using = self._store.using
        if parent is not None and above is None and server_message(row, parent, using) is None:
            raise ValidationError({"parent_id": [_NO_PARENT]})
        payload = {
            "id": own or f"aui-{digest[:_DERIVED]}",
            "content_digest": digest,
            "parent_id": behind,
            "format": name,
            "content": content,
        }
        self._store.append(agent, payload, epoch=row.redaction_epoch)
        return str(payload["id"])

    def _change(self, row: Session, name: str, content: dict[str, Any]) -> None:
        agent = self._store.read_agent(self._store.get(row.session_id), AGENT_ID)
        found = []
        if agent is not None and agent.dialect == ASSISTANT_UI:
            found = by_id(messages_of(agent.id, self._store.using), name)
        if agent is None or not found:
            raise SessionNotFoundError(f"session {row.pk} has no such message")
        self._rewrite(row, agent, found[0], None, content)

    def _rewrite(
        self,
        row: Session,
        agent: AgentRecord,
        found: Found,
        name: str | None,
        content: dict[str, Any],
    ) -> None:
        if found.redacted_at is not None:
            return
        there = self._store.read_message(agent, found.position)
        before = {} if there is None else there.content
        name = name or before.get("format", "")
        if before.get("content") == content and before.get("format") == name:
            return
        # Its place in the thread stays: so no message is ever before itself.
        behind = before.get("parent_id")
        payload = {
            "id": found.id,
            "content_digest": digest_of(row.pk, behind, name, content),
            "parent_id": behind,
            "format": name,
            "content": content,
        }
        self._store.update_message(
            agent, found.position, payload, epoch=row.redaction_epoch, key=found.key
        )
        self._store.touch(row.pk, Usage())

    def _agent(self, row: Session) -> AgentRecord:
        agent = self._store.open_agent(
            self._store.get(row.session_id), AGENT_ID, dialect=ASSISTANT_UI
        )
        if agent.dialect != ASSISTANT_UI:
            raise SessionConflictError(
                f"session {row.pk} has an agent {AGENT_ID!r} that is no client's: it is not written"
            )
        return agent


def _own_id(content: dict[str, Any]) -> str | None:
    return validate_id(content["id"], "content.id") if content.get("id") is not None else None
