"""The database work of one session's manager, in whatever thread the bridge chooses."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar, cast

from django.db import connections
from strands.types.agent import LocalAgent
from strands.types.content import Message
from strands.types.exceptions import SessionException
from strands.types.session import SessionAgent

from django_agent_sessions import masking, payloads, transcripts
from django_agent_sessions.exceptions import (
    PayloadError,
    SessionConflictError,
    StaleSessionError,
)
from django_agent_sessions.records import AgentRecord, NewMessage, SessionRecord, Usage
from django_agent_sessions.store import SessionStore

from . import formats
from .conversation import Conversation, Stored, fingerprint, track, tracked
from .orchestrators import Orchestrators
from .restoring import Found, Restored, check_dialect, is_message
from .scrubbing import scrub_agent

logger = logging.getLogger("django_agent_sessions")

R = TypeVar("R")

_MOST_RELOADS = 10


class OpenSession:
    """A session that is found, or made, when it is first asked for.

    It refers to nothing that refers to it. Whatever did would hold the conversations that were
    read until the garbage collector comes for them.

    Args:
        store: Where the session is.
        session_id: Its name.
        title: A title for a session that is made.
        metadata: JSON for a session that is made.
    """

    def __init__(
        self,
        store: SessionStore,
        session_id: str,
        *,
        title: str,
        metadata: Mapping[str, Any] | None,
    ) -> None:
        self.store = store
        self.session_id = session_id
        self.epoch = 0
        self._title = title
        self._metadata = metadata
        self._record: SessionRecord | None = None

    def open(self) -> SessionRecord:
        """Finds the session, or makes it."""
        if self._record is None:
            self._record = self._found()
            self.epoch = self._record.redaction_epoch
        return self._record

    def _found(self) -> SessionRecord:
        return self.store.open(self.session_id, title=self._title, metadata=self._metadata)

    def reopen(self) -> SessionRecord:
        """Finds the session as it is now, or makes it."""
        self._record = None
        return self.open()


class SessionWork:
    """What a manager reads and writes of its session.

    A write that comes after a redaction by somebody else reads again first, so that nothing that
    was taken out is brought back.

    Args:
        session: The session.
        raises: Whether a message is refused if another process appended since.
    """

    def __init__(self, session: OpenSession, *, raises: bool) -> None:
        self.store = session.store
        self.session_id = session.session_id
        self.conversations: dict[str, Conversation] = {}
        self.loaded_agents: dict[str, Found] | None = None
        self._session = session
        self.orchestrators = Orchestrators(session.store, session.open)
        self._raises = raises

    def conversation(self, agent: LocalAgent) -> Conversation:
        """Finds what is known of an agent.

        Raises:
            SessionException: The agent was not built with this manager.
        """
        try:
            return self.conversations[agent.agent_id]
        except KeyError:
            raise SessionException(
                f"Agent {agent.agent_id!r} was not built with the session manager of "
                f"{self.session_id!r}"
            ) from None

    def open(self) -> SessionRecord:
        """Finds the session, or makes it."""
        return self._session.open()

    def load_ahead(self) -> None:
        """Reads all that agents and orchestrators will ask for."""
        session = self.open()
        self.loaded_agents = {
            record.agent_id: self._found(record)
            for record in self.store.list_agents(session)
            if record.dialect == transcripts.STRANDS
        }
        self.orchestrators.load_ahead()

    def read_or_make(self, conversation: Conversation, agent: LocalAgent) -> Found | None:
        """Reads an agent with its messages; None if there was none, and it was made."""
        record = self.store.read_agent(self.open(), agent.agent_id)
        if record is not None:
            return self._found(record)
        conversation.unwritten = seeds(agent)
        self._write(conversation, agent)
        return None

    def _found(self, record: AgentRecord) -> Found:
        # The end comes first: what is added after it is either read too, or a conflict.
        end = self.store.next_position(record) if self._raises else 0
        return Found(record, self._messages_of(record), end)

    def _messages_of(self, record: AgentRecord) -> Restored:
        check_dialect(record)
        # Where no window is known, Strands' own count of removed messages is an offset.
        removed = record.data.conversation_manager_state.get("removed_message_count", 0)
        restored = self.store.restore(record, offset=removed)
        odd = [position for position, message, _ in restored if not is_message(message)]
        for position in odd:
            logger.warning(
                "message %d of agent %s (row %s) is none of Strands' and was left out",
                position,
                record.agent_id,
                record.id,
            )
        if odd:
            restored = [row for row in restored if row[0] not in odd]
        track(message for _, message, _ in restored)
        return restored

    def append(self, message: Message, agent: LocalAgent) -> None:
        """Writes a message, and what else of the agent is not in the database."""
        conversation = self.conversation(agent)
        with conversation.lock:
            self._append_alone(conversation, message, agent)

    def _append_alone(
        self, conversation: Conversation, message: Message, agent: LocalAgent
    ) -> None:
        grown = conversation.grown(tracked(message))
        if grown is not None:
            self._replace(conversation, grown, message)
        else:
            conversation.unwritten.append(NewMessage(message))
        self._write(conversation, agent)

    def update(self, message: Message, agent: LocalAgent) -> None:
        """Replaces a message that changed."""
        conversation = self.conversation(agent)
        with conversation.lock:
            stored = conversation.find(message["tracking_id"])
            if stored is not None:
                self._replace(conversation, stored, message)
            else:
                conversation.rewrite_unwritten(message)

    def _replace(self, conversation: Conversation, stored: Stored, message: Message) -> None:
        row = _row_of(conversation)
        try:
            self.store.update_message(
                row, stored.position, message, epoch=self._session.epoch, key=stored.key
            )
        except StaleSessionError:
            self._reload()
            if stored.message["content"] != stored.content:
                # It was redacted by somebody else; what grew behind it stays.
                grown = message["content"][len(stored.content) :]
                message["content"] = [*stored.message["content"], *grown]
            self.store.update_message(
                row, stored.position, message, epoch=self._session.epoch, key=stored.key
            )
        conversation.remember(stored.position, message, stored.key)

    def _write(self, conversation: Conversation, agent: LocalAgent) -> None:
        """Writes what of an agent is not in the database: its row, messages and state."""
        with conversation.lock:
            self._drop_rolled_back(conversation)
            self._at_epoch(lambda: self._write_at(conversation, agent, self._session.epoch))

    def _at_epoch(self, write: Callable[[], R]) -> R:
        """Writes, and again whenever something was redacted, or taken back, since it was read."""
        for _ in range(_MOST_RELOADS):
            try:
                return write()
            except StaleSessionError:
                self._reload()
        return write()

    def _write_at(self, conversation: Conversation, agent: LocalAgent, epoch: int) -> None:
        if conversation.record is None:
            # The agent's loop goes on meanwhile: what it changes then is still to be written.
            current = fingerprint(agent)
            state = formats.agent_state(SessionAgent.from_agent(agent))
            with _naming(f"the state of agent {agent.agent_id!r}"):
                record = self.store.open_agent(
                    self.open(), agent.agent_id, dialect=transcripts.STRANDS, data=state
                )
            check_dialect(record)
            conversation.record = record
            conversation.mark_synced(current, state)
        if conversation.unwritten:
            self._write_messages(conversation, conversation.record, epoch)
        if (news := conversation.unsynced(agent)) is not None:
            state, current = news
            with _naming(f"the state of agent {agent.agent_id!r}"):
                self.store.update_agent(conversation.record, state, epoch=epoch)
            conversation.mark_synced(current, state)

    def _write_messages(self, conversation: Conversation, record: AgentRecord, epoch: int) -> None:
        new = conversation.unwritten
        for message in new if conversation.corrections.secrets else ():
            # A model that was answering meanwhile may repeat what it was asked with.
            masking.scrub_in_place(message.payload, conversation.corrections.secrets)
        try:
            with _naming(f"a message of agent {record.agent_id!r}"):
                written = self.store.append_many(
                    record,
                    new,
                    run_id=conversation.run_id,
                    expected=conversation.next_position if self._raises else None,
                    epoch=epoch,
                    count=False,
                    again=conversation.unsure,
                )
        except StaleSessionError:
            raise
        except PayloadError:
            # Nothing was written. What can never be written must not stand in the way of what
            # comes next.
            sound = [message for message in new if _is_sound(message)]
            conversation.unwritten = sound if len(sound) < len(new) else new[:-1]
            raise
        except SessionConflictError:
            # A caller who wants to hear of a conflict decides what to do.
            if self._raises:
                conversation.unwritten = new[:-1]
            raise
        except Exception:
            conversation.unsure = True
            raise
        conversation.unwritten = []
        conversation.unsure = False
        conversation.remember_written(written)
        if connections[self.store.using].in_atomic_block:
            conversation.provisional.update(record.id for record in written)
        conversation.spent += _spent(new)

    def _drop_rolled_back(self, conversation: Conversation) -> None:
        """Forgets what was written in a transaction that was rolled back.

        An agent that is used again after that would else take another writer's message, at the
        same position, for its own.
        """
        if not conversation.doubtful:
            return
        conversation.doubtful = False
        there = self.store.positions(conversation.provisional)
        gone = conversation.provisional - there.keys()
        in_transaction = connections[self.store.using].in_atomic_block
        conversation.provisional = set(there) if in_transaction else set()
        if gone and conversation.record is not None:
            conversation.forget(gone)
            # The session and the agent may be gone with them.
            session = self._session.reopen()
            conversation.record = self.store.read_agent(session, conversation.record.agent_id)

    def sync(self, conversation: Conversation, agent: LocalAgent) -> None:
        """Writes the agent's state, and what was pinned anew."""
        self._write(conversation, agent)
        for stored in conversation.repinned(agent):
            self._at_epoch(partial(self._store_pin, conversation, stored))

    def _store_pin(self, conversation: Conversation, stored: Stored) -> None:
        row = _row_of(conversation)
        # What is stored, because a conversation manager may have shortened what the agent holds.
        found = self.store.read_message(row, stored.position)
        if found is not None:
            message = {k: v for k, v in found.content.items() if k != "metadata"}
            if "metadata" in stored.message:
                message["metadata"] = stored.message["metadata"]
            self.store.update_message(
                row, stored.position, message, epoch=self._session.epoch, key=stored.key
            )
        conversation.remember(stored.position, stored.message, stored.key)

    def end_run(self, conversation: Conversation, agent: LocalAgent) -> None:
        """Writes what is left at the end of an invocation, and counts it."""
        self.sync(conversation, agent)
        if conversation.spent != Usage():
            self.store.touch(_row_of(conversation).session, conversation.spent)
            conversation.spent = Usage()

    def write_orchestrator(
        self, multi_agent_id: str, state: dict[str, Any] | None, *, ended: bool = False
    ) -> None:
        """Writes an orchestrator's state."""
        self.open()
        with _naming(f"the state of orchestrator {multi_agent_id!r}"):
            self._at_epoch(
                lambda: self.orchestrators.write(
                    multi_agent_id, state, epoch=self._session.epoch, ended=ended
                )
            )

    def redact(self, redact_message: Message, agent: LocalAgent) -> None:
        """Overwrites the agent's latest message, wherever it stands."""
        conversation = self.conversation(agent)
        with conversation.lock:
            self._drop_rolled_back(conversation)
            if conversation.unwritten:
                # Its write failed: what will be written instead is the redacted version.
                payload = conversation.unwritten[-1].payload
                _forget(payload, _with_id_of(redact_message, payload))
                return
            latest = conversation.latest
            if latest is None:
                raise SessionException("There is no message to redact")
            # A prompt that was tried again stands in the conversation more than once.
            same = {stored.position: stored for stored in conversation.same_as(latest.message)}
            same |= {stored.position: stored for stored in conversation.same_as(redact_message)}
            for stored in {**same, latest.position: latest}.values():
                self._redact_stored(conversation, stored, redact_message)

    def _redact_stored(
        self, conversation: Conversation, stored: Stored, redact_message: Message
    ) -> None:
        redacted = _with_id_of(redact_message, stored.message)
        epoch = self.store.redact_message(
            _row_of(conversation), stored.position, redacted, key=stored.key
        )
        # If somebody else redacted too, the next write has to find that out.
        if epoch == self._session.epoch + 1:
            self._session.epoch = epoch
        _forget(stored.message, redacted)
        conversation.remember(stored.position, stored.message, stored.key)

    def _reload(self) -> None:
        """Reads again what was redacted, so that the agents and orchestrators forget it too."""
        session = self._session.reopen()
        secrets = self.orchestrators.taken_since_known()
        for record in self.store.list_agents(session):
            conversation = self.conversations.get(record.agent_id)
            if conversation is not None and conversation.record is not None:
                conversation.corrections.note(conversation.known_state, record.data)
                secrets |= conversation.corrections.secrets
                secrets |= self._reload_messages(conversation, conversation.record)
        secrets = masking.significant(secrets)
        if not secrets:
            return
        # What one agent said, another may have been told.
        self.orchestrators.scrub(secrets)
        for conversation in self.conversations.values():
            conversation.corrections.secrets |= secrets
            for new in conversation.unwritten:
                masking.scrub_in_place(new.payload, secrets)
            agent = conversation.agent()
            if agent is not None:
                scrub_agent(agent, secrets)

    def _reload_messages(self, conversation: Conversation, record: AgentRecord) -> set[str]:
        here = {
            found.message_id: found.content
            for found in self.store.messages(record)
            if found.redact_message is not None
        }
        # What somebody set aside since it was known is not at its place any more.
        aside = {
            found.content.get("tracking_id"): found.content
            for found in self.store.redacted_aside(record)
        }
        secrets: set[str] = set()
        for stored in conversation.all_stored():
            content = aside.get(stored.message["tracking_id"], here.get(stored.position))
            if content is not None and content != stored.message:
                secrets |= masking.removed(stored.message, content)
                _forget(stored.message, content)
        return secrets


def _row_of(conversation: Conversation) -> AgentRecord:
    if conversation.record is None:
        raise SessionException("The agent has no message yet")
    return conversation.record


def seeds(agent: LocalAgent) -> list[NewMessage]:
    """The messages that an agent was built with."""
    return [NewMessage(tracked(message)) for message in agent.messages]


def _forget(message: Message, redacted: Message) -> None:
    """Redacts a message in memory: in place, because the agent holds this very dict."""
    if message is not redacted:
        message.clear()  # type: ignore[attr-defined] # a typed dict is a dict
        message.update(redacted)


def _with_id_of(redacted: Message, original: Message) -> Message:
    """Keeps Strands' id of a message whose redacted version has none."""
    if redacted.get("tracking_id") or not original.get("tracking_id"):
        return redacted
    return cast("Message", {**redacted, "tracking_id": original["tracking_id"]})


@contextmanager
def _naming(what: str) -> Iterator[None]:
    """Says what it is that cannot be written: who wrote an agent has many values in many places."""
    try:
        yield
    except PayloadError as error:
        raise PayloadError(f"{what}: {error}") from error


def _is_sound(message: NewMessage) -> bool:
    try:
        payloads.dumps(message.payload)
    except PayloadError:
        return False
    return True


def _spent(messages: list[NewMessage]) -> Usage:
    spent = Usage()
    for message in messages:
        summary = transcripts.summary(transcripts.STRANDS, message.payload)
        spent += Usage(1, summary.input_tokens or 0, summary.output_tokens or 0)
    return spent
