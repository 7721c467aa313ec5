"""Storing the client's messages: once, under the client's ids, and never over a redaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

from rest_framework.exceptions import ValidationError

from django_agent_sessions.content.dialects import ASSISTANT_UI
from django_agent_sessions.exceptions import SessionConflictError, SessionNotFoundError
from django_agent_sessions.governance.session_change import SessionChange, change
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.contents import delete_messages
from django_agent_sessions.values.ids import validate_id
from django_agent_sessions.values.records import AgentRecord, AgentState, NewMessage, Usage

from . import CLIENT_AGENT_ID
from .thread_lookup import (
    agent_messages,
    client_id,
    content_digest,
    find_by_external_ids,
    find_by_ids,
    has_digest,
    has_id,
    thread_links,
    thread_messages,
)
from .thread_pages import find_server_message

R = TypeVar("R")

_NO_PARENT = "The thread has no such message. Store messages in order, parents first."
_ID_LENGTH = 32


@dataclass(frozen=True, slots=True)
class _Message:
    """A message as a client sends it."""

    own_id: str | None
    """The id in its content."""

    external_id: str | None
    parent: str | None
    """The id of its parent: that of the parent's content or its external id."""

    is_keyed: bool
    """Whether it comes from a client that sends external ids."""

    format: str
    content: dict[str, Any] = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Its ids."""
        return tuple(name for name in (self.own_id, self.external_id) if name is not None)

    def is_stored_as(self, message: SessionMessage, digests: Sequence[str]) -> bool:
        """Return whether a stored message is this one; ``digests`` are those of this one."""
        if self.names:
            return any(has_id(message, name) for name in self.names)
        return any(has_digest(message, digest) for digest in digests)

    def digest(self, session: UUID, parent: str | None) -> str:
        """Return the digest of its content and its parent."""
        return content_digest(session, parent, self.format, self.content)

    def new_id(self, session: UUID, parent: str | None) -> str:
        """Return a digest that differs for the same content under another external id."""
        more = () if self.external_id is None else (self.external_id,)
        return content_digest(session, parent, self.format, self.content, *more)


class ThreadWriter:
    """The client's messages of one session.

    Without ``may_replace``, only messages of the same ``author`` are replaced, who is a user other
    than the session's owner.
    """

    def __init__(
        self, store: SessionStore, session: Session, *, may_replace: bool = False, author: str = ""
    ) -> None:
        self._store = store
        self._session = session
        self._may_replace = may_replace
        self._author = author

    def keep(
        self,
        parent: str | None,
        name: str,
        content: dict[str, Any],
        *,
        external_id: str | None = None,
        parent_external_id: str | None = None,
    ) -> str:
        """Store a message unless it is stored already, because clients send messages again.

        A message is the same if it has the same ``external_id``, or the same ``id`` in its content.
        Without either, it is recognized by its content and its parent. Returns its id, which is the
        content's ``id`` if it has one. Raises the store's errors, ``SessionNotFoundError`` if it
        may not replace the message with this id, and ``ValidationError`` if the parent does not
        exist or is the message itself.
        """
        message = _Message(
            own_id=_own_id(content),
            external_id=external_id,
            parent=parent or parent_external_id,
            is_keyed=not (external_id is None and parent_external_id is None),
            format=name,
            content=content,
        )
        for key, value in (("external_id", external_id), ("parent_id", message.parent)):
            if value is not None:
                validate_id(value, key)
        if message.parent is not None and message.parent in message.names:
            raise ValidationError({"parent_id": ["Must not be the id of the message itself."]})
        return self._change(lambda current: self._keep(current, message))

    def change(self, name: str, content: dict[str, Any]) -> None:
        """Replace the content of a message; a redacted message is not changed.

        Raises ``SessionNotFoundError`` if there is no such message, and ``ValidationError`` if the
        content has another id.
        """
        own_id = _own_id(content)
        if own_id is not None and own_id != name:
            raise ValidationError({"content": ["The id must be the id of the message."]})
        self._change(lambda current: self._replace(current, name, content))

    def delete(self, names: Sequence[str]) -> None:
        """Delete messages by their ids or external ids; raise an error if there is none of them.

        A message whose parent is deleted gets the parent's parent.
        """
        for name in names:
            validate_id(name, "message_ids")
        self._change(lambda current: self._delete(current, names))

    def _change(self, apply: Callable[[SessionChange], R]) -> R:
        # Serializes clients that send the same message, and redactions.
        key = self._session.pk
        what = f"storing a message in session {key}"
        return change(key, apply, what=what, using=self._store.using).result

    def _keep(self, current: SessionChange, sent: _Message) -> str:
        row, using = current.session, self._store.using
        rows = thread_messages(row.pk, using)
        ids = [key for key in (*sent.names, sent.parent) if key is not None]
        keyed = find_by_external_ids(rows, *ids) if sent.is_keyed else {}
        # A message without an id is recognized by its digest.
        digests = [sent.digest(row.pk, sent.parent)]
        stored = find_by_ids(rows, *ids, digest="" if sent.names else digests[0])
        parent = None
        if (name := sent.parent) is not None:
            named = (message for message in stored if has_id(message, name))
            parent = next(named, keyed.get(name))
        parent_id = sent.parent if parent is None else client_id(parent)
        if parent_id != sent.parent:
            # A redaction has changed the id, or the client names the parent by its external id.
            digests.append(sent.digest(row.pk, parent_id))
            if not sent.names:
                stored += find_by_ids(rows, digest=digests[-1])
        known = [*keyed.values(), *stored]
        agent = self._client_agent(row, known[0]) if known else self._agent(row)
        same = (message for message in stored if sent.is_stored_as(message, digests))
        existing = keyed.get(sent.external_id or "") or next(same, None)
        if existing is not None:
            self._rewrite(current, agent, existing, sent.format, sent.content)
            return client_id(existing)
        if (
            sent.parent is not None
            and parent is None
            and find_server_message(row, sent.parent, using) is None
        ):
            raise ValidationError({"parent_id": [_NO_PARENT]})
        payload = {
            "id": sent.own_id or f"aui-{sent.new_id(row.pk, parent_id)[:_ID_LENGTH]}",
            "content_digest": digests[-1],
            "parent_id": parent_id,
            "format": sent.format,
            "content": sent.content,
        }
        message = NewMessage(payload, external_id=sent.external_id, author=self._author)
        # No change to count: after a commit of unknown outcome, the message is searched again.
        self._store.append(agent, message, epoch=row.redaction_epoch)
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

    def _delete(self, current: SessionChange, names: Sequence[str]) -> None:
        row, using = current.session, self._store.using
        rows = thread_messages(row.pk, using)
        keyed = find_by_external_ids(rows, *names)
        found = {one.pk: one for one in (*find_by_ids(rows, *names), *keyed.values())}
        if not found:
            raise SessionNotFoundError(f"session {row.pk} has no message of a client with this id")
        agent = self._client_agent(row, next(iter(found.values())))
        links = thread_links(rows)
        gone = {links[key].id: links[key].parent_id for key in found if key in links}
        delete_messages(using, agent, list(found))
        for key, link in links.items():
            if key not in found and link.parent_id in gone:
                self._link(current, agent, key, _nearest(link.parent_id, gone))
        self._store.touch(row, Usage())
        current.changed = True

    def _link(
        self, current: SessionChange, agent: AgentRecord, key: UUID, parent_id: str | None
    ) -> None:
        """Write the parent of a message."""
        row = current.session
        position = self._store.messages.positions([key])[key]
        record = self._store.messages.find(agent, position)
        if record is None or not isinstance(record.content, dict):
            return
        payload = record.content | {"parent_id": parent_id}
        content, name = payload.get("content"), payload.get("format", "")
        if record.redact_message is None and isinstance(content, dict):
            payload["content_digest"] = content_digest(row.pk, parent_id, name, content)
        self._store.messages.update(agent, position, payload, epoch=row.redaction_epoch, key=key)

    def _rewrite(
        self,
        current: SessionChange,
        agent: AgentRecord,
        message: SessionMessage,
        name: str | None,
        content: dict[str, Any],
    ) -> None:
        if message.redacted_at is not None:
            return
        row = current.session
        record = self._store.messages.find(agent, message.message_id)
        stored = {} if record is None else record.content
        name = name or stored.get("format", "")
        if stored.get("content") == content and stored.get("format") == name:
            return
        is_own = record is not None and record.author == self._author != ""
        if not self._may_replace and not is_own:
            raise SessionNotFoundError(f"session {row.pk} has no message that may be replaced")
        # The parent stays the same, so that no message becomes its own ancestor.
        parent_id = stored.get("parent_id")
        payload = {
            "id": client_id(message),
            "content_digest": content_digest(row.pk, parent_id, name, content),
            "parent_id": parent_id,
            "format": name,
            "content": content,
        }
        self._store.messages.update(
            agent, message.message_id, payload, epoch=row.redaction_epoch, key=message.pk
        )
        self._store.touch(row, Usage())
        current.changed = True

    def _client_agent(self, row: Session, message: SessionMessage) -> AgentRecord:
        """Return the agent of a stored message; the client's agent has no state."""
        return AgentRecord(
            message.agent_id,
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


def _nearest(parent_id: str | None, gone: Mapping[str, str | None]) -> str | None:
    """Return the nearest ancestor that is not deleted."""
    # Imported messages may be their own ancestors.
    for _ in gone:
        parent_id = parent_id if parent_id is None else gone.get(parent_id, parent_id)
    return None if parent_id in gone else parent_id


def _own_id(content: dict[str, Any]) -> str | None:
    return validate_id(content["id"], "content.id") if content.get("id") is not None else None
