"""Storing the client's messages: once, under the client's ids, and never over a redaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from rest_framework.exceptions import ValidationError

from django_agent_sessions.content.dialects import ASSISTANT_UI
from django_agent_sessions.exceptions import SessionConflictError, SessionNotFoundError
from django_agent_sessions.governance.session_change import SessionChange, change
from django_agent_sessions.models import Session
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.ids import validate_id
from django_agent_sessions.values.records import AgentRecord, AgentState, Usage

from . import CLIENT_AGENT_ID
from .thread_lookup import (
    StoredThreadMessage,
    agent_messages,
    content_digest,
    find_by_ids,
    thread_messages,
)
from .thread_pages import find_server_message

R = TypeVar("R")

_NO_PARENT = "The thread has no such message. Store messages in order, parents first."
_ID_LENGTH = 32


class ThreadWriter:
    """The client's messages of one session; without ``may_replace``, none of them is replaced."""

    def __init__(self, store: SessionStore, session: Session, *, may_replace: bool = False) -> None:
        self._store = store
        self._session = session
        self._may_replace = may_replace

    def keep(self, parent: str | None, name: str, content: dict[str, Any]) -> str:
        """Store a message unless it is stored already, because clients send whole threads again.

        Returns its id, which is the content's ``id`` if it has one. Raises the store's errors,
        ``SessionNotFoundError`` if it may not replace the message with this id, and
        ``ValidationError`` if the parent does not exist or is the message itself.
        """
        own_id = _own_id(content)
        if parent is not None:
            validate_id(parent, "parent_id")
        if own_id is not None and own_id == parent:
            raise ValidationError({"parent_id": ["Must not be the id of the message itself."]})
        return self._change(lambda current: self._keep(current, own_id, parent, name, content))

    def change(self, name: str, content: dict[str, Any]) -> None:
        """Replace the content of a message; a redacted message is not changed.

        Raises ``SessionNotFoundError`` if there is no such message, and ``ValidationError`` if the
        content has another id.
        """
        own_id = _own_id(content)
        if own_id is not None and own_id != name:
            raise ValidationError({"content": ["The id must be the id of the message."]})
        self._change(lambda current: self._replace(current, name, content))

    def _change(self, apply: Callable[[SessionChange], R]) -> R:
        # Serializes clients that send the same message, and redactions.
        key = self._session.pk
        what = f"storing a message in session {key}"
        return change(key, apply, what=what, using=self._store.using).result

    def _keep(
        self,
        current: SessionChange,
        own_id: str | None,
        parent: str | None,
        name: str,
        content: dict[str, Any],
    ) -> str:
        row, using = current.session, self._store.using
        rows = thread_messages(row.pk, using)
        digest = content_digest(row.pk, parent, name, content)
        ids = [key for key in (own_id, parent) if key is not None]
        # A message without an id is recognized by its digest.
        stored = find_by_ids(rows, *ids, digest="" if own_id else digest)
        parent_message = next((message for message in stored if parent in message.names), None)
        parent_id = parent if parent_message is None else parent_message.id
        if parent_id != parent:
            # A redaction has changed the id.
            digest = content_digest(row.pk, parent_id, name, content)
            if own_id is None:
                stored += find_by_ids(rows, digest=digest)
        agent = self._client_agent(row, stored[0]) if stored else self._agent(row)
        existing = next(
            (
                message
                for message in stored
                if (own_id in message.names if own_id else message.has_digest)
            ),
            None,
        )
        if existing is not None:
            self._rewrite(current, agent, existing, name, content)
            return existing.id
        if (
            parent is not None
            and parent_message is None
            and find_server_message(row, parent, using) is None
        ):
            raise ValidationError({"parent_id": [_NO_PARENT]})
        payload = {
            "id": own_id or f"aui-{digest[:_ID_LENGTH]}",
            "content_digest": digest,
            "parent_id": parent_id,
            "format": name,
            "content": content,
        }
        # No change to count: after a commit of unknown outcome, the message is searched again.
        self._store.append(agent, payload, epoch=row.redaction_epoch)
        return str(payload["id"])

    def _replace(self, current: SessionChange, name: str, content: dict[str, Any]) -> None:
        row = current.session
        agent = self._store.agents.find(self._store.get(row.session_id), CLIENT_AGENT_ID)
        messages = []
        if agent is not None and agent.dialect == ASSISTANT_UI:
            messages = find_by_ids(agent_messages(agent.id, self._store.using), name)
        if agent is None or not messages:
            raise SessionNotFoundError(f"session {row.pk} has no message of a client with this id")
        self._rewrite(current, agent, messages[0], None, content)

    def _rewrite(
        self,
        current: SessionChange,
        agent: AgentRecord,
        message: StoredThreadMessage,
        name: str | None,
        content: dict[str, Any],
    ) -> None:
        if message.redacted_at is not None:
            return
        row = current.session
        record = self._store.messages.find(agent, message.position)
        stored = {} if record is None else record.content
        name = name or stored.get("format", "")
        if stored.get("content") == content and stored.get("format") == name:
            return
        if not self._may_replace:
            raise SessionNotFoundError(f"session {row.pk} has no message that may be replaced")
        # The parent stays the same, so that no message becomes its own ancestor.
        parent_id = stored.get("parent_id")
        payload = {
            "id": message.id,
            "content_digest": content_digest(row.pk, parent_id, name, content),
            "parent_id": parent_id,
            "format": name,
            "content": content,
        }
        self._store.messages.update(
            agent, message.position, payload, epoch=row.redaction_epoch, key=message.key
        )
        self._store.touch(row.pk, Usage())
        current.changed = True

    def _client_agent(self, row: Session, message: StoredThreadMessage) -> AgentRecord:
        """Return the agent of a stored message; the client's agent has no state."""
        return AgentRecord(
            message.agent,
            row.pk,
            CLIENT_AGENT_ID,
            ASSISTANT_UI,
            AgentState(),
            row.created_at,
            row.updated_at,
        )

    def _agent(self, row: Session) -> AgentRecord:
        agent = self._store.agents.open(
            self._store.get(row.session_id), CLIENT_AGENT_ID, dialect=ASSISTANT_UI
        )
        if agent.dialect != ASSISTANT_UI:
            raise SessionConflictError(
                f"session {row.pk} has an agent {CLIENT_AGENT_ID!r} that is not the client's"
            )
        return agent


def _own_id(content: dict[str, Any]) -> str | None:
    return validate_id(content["id"], "content.id") if content.get("id") is not None else None
