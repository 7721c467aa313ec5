"""Database operations of a session's manager; they run in the thread that the bridge selects."""

from __future__ import annotations

import copy
import logging
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

from django.db import connections
from strands.multiagent.base import MultiAgentBase
from strands.types.content import Message
from strands.types.exceptions import SessionException
from strands.types.session import SessionAgent

from django_agent_sessions.adapters.base import MAX_RELOADS, check_dialect
from django_agent_sessions.content import dialects, exact_json, masking
from django_agent_sessions.exceptions import PayloadError, SessionConflictError, StaleSessionError
from django_agent_sessions.store import AppendSteps, run_steps
from django_agent_sessions.values.ids import SessionKey
from django_agent_sessions.values.records import (
    AgentRecord,
    AgentState,
    Append,
    NewMessage,
    SessionRecord,
    UnreadableState,
    Usage,
    Written,
)
from django_agent_sessions.values.run_context import current_run

from . import formats
from .conversation import (
    Conversation,
    NewState,
    add_tracking_ids,
    fingerprint,
    with_tracking_id,
)
from .held_messages import HeldMessage, copy_of
from .live_redaction import mask_agent
from .message_changes import (
    added_blocks,
    extended,
    overwrite,
    reload_messages,
    row_of,
    with_tracking_id_of,
)
from .newer_names import LocalAgent
from .offloaded import read_originals
from .open_session import OpenSession
from .orchestrators import Orchestrators
from .restore import (
    Restored,
    StoredAgent,
    is_strands_message,
    name_unreadable,
    removed_count,
)

logger = logging.getLogger("django_agent_sessions")

R = TypeVar("R")


class SessionOperations:
    """Reads and writes of a manager.

    A write after a redaction by another process reloads first, so that no redacted text is written
    again.
    """

    def __init__(self, session: OpenSession, *, raises: bool) -> None:
        self.store = session.store
        self.session_id = session.session_id
        self.conversations: dict[str, Conversation] = {}
        self.loaded_agents: dict[str, StoredAgent] | None = None
        self.state_with_messages = True
        """Whether a changed state is written together with a message."""
        self._session, self._memory = session, session.memory
        self.orchestrators = Orchestrators(session.store, session.open)
        self._raises = raises

    def conversation(self, agent: LocalAgent) -> Conversation:
        """Return the conversation of an agent of this manager."""
        try:
            return self.conversations[agent.agent_id]
        except KeyError:
            raise SessionException(
                f"Agent {agent.agent_id!r} was not built with the session manager of "
                f"{self.session_id!r}"
            ) from None

    def open(self) -> SessionRecord:
        """Read the session, or create it."""
        return self._session.open()

    def load_ahead(self) -> None:
        """Read the data of all agents and orchestrators."""
        records, has_orchestrators = self._session.open_with_agents()
        self.loaded_agents = {
            record.agent_id: self._read_found(record)
            for record in records
            if record.dialect == dialects.STRANDS
        }
        self.orchestrators.load_ahead(none=not has_orchestrators)

    def read_or_create(self, conversation: Conversation, agent: LocalAgent) -> StoredAgent | None:
        """Read an agent with its messages; None if it did not exist and was created."""
        record = self.store.agents.find(self.open(), agent.agent_id)
        if record is not None:
            return self._read_found(record)
        conversation.pending_messages = initial_messages(agent)
        self._write(conversation, agent)
        return None

    def _read_found(self, record: AgentRecord) -> StoredAgent:
        if isinstance(record.data, UnreadableState):
            # Restoring it raises; the other agents of the session can be built.
            return StoredAgent(record, [], 0, {})
        # Read the end first: a message that is appended after it is either read too or a conflict.
        end = self.store.messages.next_position(record) if self._raises else 0
        restored = self._messages_of(record)
        return StoredAgent(record, restored, end, read_originals(self.store, record, restored))

    def _messages_of(self, record: AgentRecord) -> Restored:
        check_dialect(record, dialects.STRANDS)
        restored = self.store.messages.restore(record, offset=removed_count(record.data))
        invalid = [row for row in restored if not is_strands_message(row.payload)]
        for row in invalid:
            logger.warning(
                "message %s of agent %s (row %s) is not a message of Strands and was skipped",
                row.position,
                record.agent_id,
                record.id,
            )
        if invalid:
            restored = [row for row in restored if is_strands_message(row.payload)]
        add_tracking_ids(row.payload for row in restored if row.position is not None)
        return restored

    def take_question(self, message: Message) -> tuple[str | None, bool]:
        """Return the client's id of a user's message, and whether it is stored already.

        The id is that of the message that the run answers; None for all other messages.
        """
        key = current_run().question
        text = None if key is None else dialects.get(dialects.STRANDS).question(message)
        if key is None or text is None:
            return None, False
        session = SessionKey(self.store.namespace, self.store.scope, self.session_id)
        return key.take(session, text)

    def append(
        self, message: Message, agent: LocalAgent, external_id: str | None = None
    ) -> AppendSteps[None]:
        """Write a message, and everything else of the agent that is not in the database."""
        conversation = self.conversation(agent)
        if not conversation.lock.acquire(blocking=False):
            # Another thread may have it, which may wait for a lock of the database.
            yield None
            conversation.lock.acquire()
        try:
            message = conversation.as_written(message, agent)
            grown = conversation.find_extended(with_tracking_id(message))
            if grown is not None:
                yield None
                self._extend(conversation, grown, message)
            else:
                model = _model_of(agent) if message["role"] == "assistant" else ""
                new = NewMessage(message, model=model, external_id=external_id)
                conversation.pending_messages.append(new)
            yield from self._write_steps(conversation, agent)
        finally:
            conversation.lock.release()

    def update(self, message: Message, agent: LocalAgent) -> None:
        """Replace a message that has changed."""
        conversation = self.conversation(agent)
        with conversation.lock:
            stored = conversation.find(message["tracking_id"])
            if stored is not None:
                self._replace(conversation, stored, message, message)
            else:
                conversation.rewrite_unwritten(message)

    def _extend(self, conversation: Conversation, stored: HeldMessage, message: Message) -> None:
        """Write a message that Strands has extended; if it was reduced, to its original."""
        payload = message
        if stored.original is None or stored.original["content"] != stored.message["content"]:
            payload = extended(self.store, conversation, stored, message)
        self._replace(conversation, stored, message, payload)

    def _replace(
        self,
        conversation: Conversation,
        stored: HeldMessage,
        message: Message,
        payload: Message,
    ) -> None:
        """Write the payload in place of a message that the agent replaced."""
        row, added = row_of(conversation), added_blocks(stored, message)

        def update(payload: Message) -> None:
            self.store.messages.update(
                row, stored.position, payload, epoch=self._memory.known.epoch, key=stored.key
            )

        try:
            update(payload)
        except StaleSessionError:
            before = conversation.find(message["tracking_id"])
            self._reload()
            if conversation.find(message["tracking_id"]) is not before:
                # Another process redacted it; the content that was added after it stays.
                payload = extended(self.store, conversation, stored, message, added)
                masking.mask_texts_in_place(payload, conversation.corrections.secrets)
                message["content"] = payload["content"]
            update(payload)
        original = copy_of(payload)
        conversation.remember_as([HeldMessage(stored.position, message, original, stored.key)])

    def _write(
        self, conversation: Conversation, agent: LocalAgent, *, with_window: bool = False
    ) -> None:
        steps = self._write_steps(conversation, agent, with_window=with_window)
        run_steps(self._session.using, steps)

    def _write_steps(
        self, conversation: Conversation, agent: LocalAgent, *, with_window: bool = False
    ) -> AppendSteps[None]:
        """Write what is not in the database: the agent's row, messages and state."""
        if conversation.must_check_rollback:
            yield None
            self._drop_rolled_back(conversation)
        reloads_left = MAX_RELOADS
        while True:
            try:
                return (yield from self._write_at(conversation, agent, with_window=with_window))
            except StaleSessionError:
                if not reloads_left:
                    raise
            reloads_left -= 1
            self._reload()

    def _write_at(
        self, conversation: Conversation, agent: LocalAgent, *, with_window: bool
    ) -> AppendSteps[None]:
        epoch, record = self._memory.known.epoch, conversation.record
        writes_state = with_window or self.state_with_messages
        if record is None:
            yield None
            record = self._create_agent(conversation, agent, epoch)
        elif writes_state and not with_window:
            # Most messages change no state. What changes meanwhile is written with the next one.
            writes_state = conversation.state_to_write(agent, with_window=False) is not None
            if writes_state:
                yield None
        if conversation.pending_messages:
            yield from self._write_messages(conversation, record, epoch)
        # Only now, because a window names the messages that are stored.
        new = conversation.state_to_write(agent, with_window=with_window) if writes_state else None
        if new is not None:
            with self._name_in_error(f"the state of agent {agent.agent_id!r}"):
                self.store.agents.update(record, new.state, epoch=epoch)
            conversation.mark_synced(new)

    def _create_agent(
        self, conversation: Conversation, agent: LocalAgent, epoch: int | None
    ) -> AgentRecord:
        """Create the agent's row, with the pending messages if there was none, or find it."""
        # The agent's loop may change the state meanwhile, which must be written again then.
        current = fingerprint(agent)
        state = formats.agent_state(SessionAgent.from_agent(agent))
        # An override of `sync_agent` may change what was set since the agent was built.
        deferred = not self.state_with_messages and self.loaded_agents is not None
        if deferred:
            state = replace(state, state={})
        with self._name_in_error(f"the state of agent {agent.agent_id!r}"):
            record = self._start(conversation, agent, state, epoch) or self.store.agents.open(
                self.open(), agent.agent_id, dialect=dialects.STRANDS, data=state
            )
        check_dialect(record, dialects.STRANDS)
        conversation.record = record
        if deferred:
            conversation.known_state = state
        else:
            conversation.mark_synced(NewState(state, current, None))
        return record

    def _start(
        self, conversation: Conversation, agent: LocalAgent, state: AgentState, epoch: int | None
    ) -> AgentRecord | None:
        """Create the agent's row with the pending messages; None if nothing was written."""
        new = conversation.pending_messages
        options = self._append_options(conversation, epoch)
        # Of a new agent, nothing is written yet, and the first position is 0.
        again, expected = options.pop("again"), options.pop("expected")
        if not new or again or expected:
            return None
        try:
            record, written = self.store.agents.start(
                self.open(), agent.agent_id, new, dialect=dialects.STRANDS, data=state, **options
            )
        except (PayloadError, SessionConflictError):
            return None
        except Exception:
            conversation.may_be_written = True
            raise
        self._record_written(conversation, written)
        return record

    def _name_in_error(self, what: str) -> AbstractContextManager[None]:
        return formats.name_in_error(f"{what} of session {self.session_id!r}")

    def _append_options(self, conversation: Conversation, epoch: int | None) -> dict[str, Any]:
        pending = conversation.pending_messages
        for message in pending if conversation.corrections.secrets else ():
            # A model that was responding at the time of the redaction may repeat redacted text.
            masking.mask_texts_in_place(message.payload, conversation.corrections.secrets)
        return {
            "run_id": conversation.run_id,
            "expected": conversation.next_position if self._raises else None,
            "epoch": epoch,
            "count": False,
            "again": conversation.may_be_written,
        }

    def _write_messages(
        self, conversation: Conversation, record: AgentRecord, epoch: int | None
    ) -> AppendSteps[None]:
        new = conversation.pending_messages
        options = self._append_options(conversation, epoch)
        try:
            written = yield Append(record, new, **options)
        except StaleSessionError:
            raise
        except PayloadError as error:
            # Nothing was written. A message that can never be written must not block later ones.
            writable = [message for message in new if _is_writable(message)]
            conversation.keep_pending(writable if len(writable) < len(new) else new[:-1])
            what = f"a message of agent {record.agent_id!r} of session {self.session_id!r}"
            raise PayloadError(f"{what}: {error}") from error
        except SessionConflictError:
            # With on_conflict="raise" the caller decides what to do with the last message.
            if self._raises:
                conversation.keep_pending(new[:-1])
            raise
        except Exception:
            conversation.may_be_written = True
            raise
        self._record_written(conversation, written)

    def _record_written(self, conversation: Conversation, written: Written) -> None:
        conversation.pending_messages = []
        conversation.may_be_written = False
        conversation.remember_written(written)
        if connections[self._session.using].in_atomic_block:
            conversation.uncommitted_ids.update(record.id for record in written)
        for appended in written:
            conversation.spent += appended.usage

    def _drop_rolled_back(self, conversation: Conversation) -> None:
        """Forget messages that were written in a transaction that was rolled back.

        Otherwise an agent that is used again would take another writer's message at the same
        position for its own.
        """
        if not conversation.must_check_rollback:
            return
        conversation.must_check_rollback = False
        existing = self.store.messages.positions(conversation.uncommitted_ids)
        missing = conversation.uncommitted_ids - existing.keys()
        in_transaction = connections[self._session.using].in_atomic_block
        conversation.uncommitted_ids = set(existing) if in_transaction else set()
        if missing and conversation.record is not None:
            conversation.forget(missing)
            # The session and the agent may have been rolled back too. The epoch stays, because
            # redactions since then are not in the agent's memory: the next write reloads.
            epoch = self._memory.known.epoch
            session = self._session.reopen()
            self._memory.change(epoch=epoch)
            conversation.record = self.store.agents.find(session, conversation.record.agent_id)

    def sync(self, conversation: Conversation, agent: LocalAgent) -> None:
        """Write changed pins, and the agent's state with what it holds."""
        with conversation.lock:
            self._drop_rolled_back(conversation)
            for stored in conversation.find_repinned(agent):
                pin = partial(self._store_pin, conversation, stored)
                self._session.reload_if_stale(pin, self._reload)
            self._write(conversation, agent, with_window=True)

    def _store_pin(self, conversation: Conversation, stored: HeldMessage) -> None:
        row = row_of(conversation)
        # The stored content, because a conversation manager may have shortened the agent's.
        record = self.store.messages.find(row, stored.position)
        if record is not None:
            message = {k: v for k, v in record.content.items() if k != "metadata"}
            if "metadata" in stored.message:
                message["metadata"] = stored.message["metadata"]
            self.store.messages.update(
                row, stored.position, message, epoch=self._memory.known.epoch, key=stored.key
            )
        original = {k: v for k, v in (stored.original or {}).items() if k != "metadata"}
        if "metadata" in stored.message:
            original["metadata"] = copy.deepcopy(stored.message["metadata"])
        conversation.remember_as([stored._replace(original=cast("Message", original))])

    def end_run(self, conversation: Conversation, agent: LocalAgent) -> None:
        """Write everything at the end of an invocation, and count its usage."""
        self.sync(conversation, agent)
        self.count(conversation)

    def count(self, conversation: Conversation) -> None:
        """Count the usage that is not counted yet."""
        if conversation.spent != Usage():
            self._session.after_run(row_of(conversation).session, conversation.spent)
            conversation.spent = Usage()

    def restore_orchestrator(self, source: MultiAgentBase, state: dict[str, Any] | None) -> None:
        """Restore an orchestrator from its stored state, if there is one."""
        with name_unreadable(f"orchestrator {source.id!r} of session {self.session_id!r}"):
            self.orchestrators.restore(source, state)

    def write_orchestrator(
        self, multi_agent_id: str, state: dict[str, Any] | None, *, ended: bool = False
    ) -> None:
        """Write an orchestrator's state."""
        self.open()
        with self._name_in_error(f"the state of orchestrator {multi_agent_id!r}"):
            self._session.reload_if_stale(
                lambda: self.orchestrators.write(
                    multi_agent_id, state, epoch=self._memory.known.epoch, ended=ended
                ),
                self._reload,
            )

    def redact(self, redact_message: Message, agent: LocalAgent) -> None:
        """Replace the agent's latest message with its redacted version, wherever it is stored."""
        conversation = self.conversation(agent)
        with conversation.lock:
            self._drop_rolled_back(conversation)
            if conversation.pending_messages:
                # Its write failed: the redacted version is written with the next write.
                payload = conversation.pending_messages[-1].payload
                _check_same_role(payload, redact_message)
                overwrite(payload, with_tracking_id_of(redact_message, payload))
                return
            latest = conversation.latest
            if latest is None:
                raise SessionException("The agent has no message to redact")
            _check_same_role(latest.message, redact_message)
            # A retried prompt is in the conversation more than once.
            same = {stored.position: stored for stored in conversation.find_same(latest.message)}
            same |= {stored.position: stored for stored in conversation.find_same(redact_message)}
            for stored in {**same, latest.position: latest}.values():
                self._redact_stored(conversation, stored, redact_message)

    def _redact_stored(
        self, conversation: Conversation, stored: HeldMessage, redact_message: Message
    ) -> None:
        redacted = with_tracking_id_of(redact_message, stored.message)
        epoch = self.store.messages.redact(
            row_of(conversation), stored.position, redacted, key=stored.key
        )
        # If another process has redacted too, the next write must reload.
        if epoch == (self._memory.known.epoch or 0) + 1:
            self._memory.change(epoch=epoch)
        overwrite(stored.message, redacted)
        conversation.remember(stored.position, stored.message, stored.key)

    def _reload(self) -> None:
        """Reload redactions, and apply them to the agents and orchestrators in memory."""
        session = self._session.reopen()
        secrets = self.orchestrators.redacted_texts()
        for record in self.store.agents.list(session):
            conversation = self.conversations.get(record.agent_id)
            if conversation is not None and conversation.record is not None:
                conversation.corrections.note(conversation.known_state, record.data)
                secrets |= conversation.corrections.secrets
                secrets |= reload_messages(self.store, conversation, record)
        secrets = masking.searchable_texts(secrets)
        if not secrets:
            return
        # A text of one agent may also be in the memory of others.
        self.orchestrators.scrub(secrets)
        for conversation in self.conversations.values():
            conversation.corrections.secrets |= secrets
            for new in conversation.pending_messages:
                masking.mask_texts_in_place(new.payload, secrets)
            agent = conversation.agent()
            if agent is not None:
                mask_agent(agent, secrets)


def initial_messages(agent: LocalAgent) -> list[NewMessage]:
    """Return the messages that an agent was created with."""
    return [NewMessage(with_tracking_id(message)) for message in agent.messages]


def _model_of(agent: Any) -> str:
    """Return the name of an agent's model; empty if it has none, or does not tell it."""
    try:
        config = agent.model.get_config()
        name = config.get("model_id") if isinstance(config, dict) else None
    except Exception:
        # Models are the application's code.
        return ""
    return name if isinstance(name, str) else ""


def _is_writable(message: NewMessage) -> bool:
    try:
        exact_json.dumps(message.payload)
    except PayloadError:
        return False
    return True


def _check_same_role(latest: Any, redact_message: Any) -> None:
    """Raise SessionException if a redacted version is not that of the latest message."""
    roles = latest.get("role"), redact_message.get("role")
    if roles[0] != roles[1]:
        raise SessionException(
            f"The agent's latest message has the role {roles[0]!r} and its redacted version the "
            f"role {roles[1]!r}: a guardrail redacts a message before the next one is added; for "
            "an earlier one, use redact() with WholeMessage"
        )
