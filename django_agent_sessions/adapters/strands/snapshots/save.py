"""One save of an agent's snapshot: what is new, and where it belongs."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django_agent_sessions.adapters.base import check_dialect
from django_agent_sessions.adapters.strands.live_redaction import RedactionLog
from django_agent_sessions.content import dialects, masking
from django_agent_sessions.content.message_references import holding
from django_agent_sessions.exceptions import StaleSessionError
from django_agent_sessions.models import Branch
from django_agent_sessions.store.snapshots import (
    LATEST_SNAPSHOT_ID,
    SaveState,
    SnapshotStorageStore,
    SnapshotWrite,
    state_in_document,
)
from django_agent_sessions.values.records import AgentState

from . import json_documents
from .cache import KnownAgent
from .messages import (
    Reference,
    SnapshotMessage,
    match_messages,
    position_of,
    to_ranges,
    tracking_id,
)
from .saved_redaction import (
    mask_document,
    note_messages,
    note_redacted,
    raw_by_position,
    removed_texts,
)

logger = logging.getLogger("django_agent_sessions")


@dataclass
class _Placement:
    """Where the messages of a snapshot belong."""

    references: list[Reference]
    appended: list[Any]
    updated: list[tuple[int, Any]]
    keep: int | None
    kind: str


class AgentSave:
    """A snapshot of an agent to be stored."""

    def __init__(
        self,
        store: SnapshotStorageStore,
        snapshot_id: str,
        data: bytes,
        known: KnownAgent | None,
        epoch: int | None = None,
    ) -> None:
        self._store = store
        self._epoch = epoch
        self._snapshot_id = snapshot_id
        self._data = data
        self._first = json_documents.first_message(data)
        self._known = known
        self._corrections = known.corrections if known else RedactionLog()
        self._outdated = False
        self._stop = self._first
        self._messages: list[SnapshotMessage] = []
        self._document: Any = None
        self._state: AgentState | None = None

    def plan(self, head: SaveState) -> SnapshotWrite:
        """Return what to write.

        Raises ``StaleSessionError`` if the writer may still have redacted texts that are not known.
        """
        check_dialect(head.agent, dialects.STRANDS)
        known = self._known
        if known is not None:
            self._check_not_deleted(head, known)
        if known is not None and known.agent != head.agent.id:
            known = None
        is_stale = self._is_stale(head, known)
        self._outdated = bool(known and known.outdated)
        redacted: Mapping[int, Any] = {}
        messages = None if is_stale else self._match_known(head, known)
        if messages is None:
            messages, redacted = self._match_rows(head, known)
        self._check_not_removed(head, messages)
        placement = self._place(head, known, messages, redacted)
        self._document = json_documents.loads_without_messages(self._data, self._first, self._stop)
        if is_stale and known is not None:
            stored = self._store.stored_snapshot(head.agent, known.snapshot_id)
            note_redacted(self._corrections, known, *stored)
        if self._outdated or (known is not None and known.epoch != head.epoch):
            self._mask(placement)
        self._messages = [
            SnapshotMessage(item.raw, reference)
            for item, reference in zip(messages, placement.references, strict=True)
        ]
        return self._finish(head, known, placement)

    def known(self, head: SaveState) -> KnownAgent:
        """Return what the storage knows after the write."""
        return KnownAgent(
            session=head.session,
            agent=head.agent.id,
            epoch=head.epoch,
            revision=head.revision,
            last=head.last,
            branch=0,
            messages=self._messages,
            snapshot_id=self._snapshot_id,
            document=self._document,
            state=self._state,
            corrections=self._corrections,
            outdated=self._outdated,
            evicted=bool(self._known and self._known.evicted),
            refused=bool(self._known and self._known.refused),
            removed=self._known.removed if self._known else frozenset(),
        )

    # --- deleted messages ---------------------------------------------------------------------

    def _check_not_deleted(self, head: SaveState, known: KnownAgent) -> None:
        """Raise if messages that the writer has were deleted since it was read or written."""
        basis = known.basis.standing() if known.basis else None
        if basis is None:
            return
        if basis.key != head.agent.id:
            if not known.restarted:
                raise _stale(head)
        elif not self._store.is_stored(head.agent.id, basis.last, head.last):
            raise _stale(head)

    def _check_not_removed(self, head: SaveState, messages: Sequence[SnapshotMessage]) -> None:
        """Raise if the writer has messages that were deleted before another one was restored."""
        removed = self._known.removed if self._known else ()
        new = [item for item in messages if removed and item.reference is None]
        if any(tracking_id(message) in removed for message in new):
            raise _stale(head)

    def _is_stale(self, head: SaveState, known: KnownAgent | None) -> bool:
        if known is None:
            exists = head.revision is not None or head.last is not None
            if exists and head.epoch not in (0, self._epoch):
                raise _stale(head)
            return False
        if known.evicted and not self._was_restored(known):
            known.refused = True
            raise _stale(head)
        if head.epoch == known.epoch:
            return False
        if known.messages is None:
            raise _stale(head)
        if known.last is not None and not self._store.is_there(head.agent, known.last):
            # The conversation was rewound, and the moved messages may have been redacted.
            raise _stale(head)
        return True

    def _was_restored(self, known: KnownAgent) -> bool:
        """Return whether the writer has the messages as they were read, and perhaps new ones."""
        if known.messages is None:
            return False
        before, _ = _split(match_messages(self._data, self._first, known.messages)[0])
        if any(item.reference is None or item.message is not None for item in before):
            return False
        return before[-1:] == known.messages[-1:]

    # --- find the messages --------------------------------------------------------------------

    def _match_known(
        self, head: SaveState, known: KnownAgent | None
    ) -> list[SnapshotMessage] | None:
        """Match the messages that were last read or written; None if the rows are required."""
        if known is None or known.messages is None or (known.branch, known.last) != (0, head.last):
            return None
        messages, self._stop = match_messages(self._data, self._first, known.messages)
        before, new = _split(messages)
        is_rewound = bool(new) and self._end(head, before)[1] is not None
        if is_rewound or any(item.reference is None for item in before):
            # The conversation may contain messages that the last snapshot did not.
            return None
        changed = [position_of(item.reference) for item in before if item.message is not None]
        found = [position for position in changed if position is not None]
        if found and self._store.redacted_positions(head.agent, found):
            return None
        return messages

    def _match_rows(
        self, head: SaveState, known: KnownAgent | None
    ) -> tuple[list[SnapshotMessage], Mapping[int, Any]]:
        """Match the messages in the database; return also the redacted ones by position."""
        rows = self._store.store.messages.positioned(head.agent)
        redacted = {row.position: row.payload for row in rows if row.redacted}
        # A redacted message is recognized by its content before the redaction.
        originals = raw_by_position(known, redacted) if redacted else {}
        stored = [
            SnapshotMessage(
                originals.get(row.position) or json_documents.dump_document(row.payload),
                row.position,
            )
            for row in rows
        ]
        messages, self._stop = match_messages(self._data, self._first, stored)
        if redacted and known is not None and note_messages(known, redacted):
            # Also of messages that this snapshot has no more: a summary may quote them.
            self._outdated = True
        for item in messages if redacted else ():
            position = position_of(item.reference)
            if position is not None and position in redacted:
                self._note_redacted(item, redacted[position])
        return messages, redacted

    def _note_redacted(self, item: SnapshotMessage, content: Any) -> None:
        """Record the redaction of a message that this writer has with its original content."""
        message = item.message or json_documents.message_at(item.raw, 0)[0]
        if message != content:
            self._outdated = True
            self._corrections.secrets |= removed_texts(message, content)

    # --- place the messages -------------------------------------------------------------------

    def _place(
        self,
        head: SaveState,
        known: KnownAgent | None,
        messages: list[SnapshotMessage],
        redacted: Mapping[int, Any],
    ) -> _Placement:
        before, new = _split(messages)
        updated: list[tuple[int, Any]] = []
        references = [self._reference(head, item, redacted, updated) for item in before]
        end, keep = self._end(head, before) if new else (head.end, None)
        kind = Branch.Kind.REWOUND
        if keep is not None and known and (known.revision, known.end) != (head.revision, head.end):
            kind = Branch.Kind.CONFLICT
            logger.warning(
                "agent %s of session %s was saved by two writers at once: messages from position "
                "%d on were moved to a branch",
                head.agent.id,
                head.session,
                end,
            )
        references += range(end, end + len(new))
        return _Placement(references, [item.message for item in new], updated, keep, str(kind))

    def _end(self, head: SaveState, before: Sequence[SnapshotMessage]) -> tuple[int, int | None]:
        """Return the position of the next message, and the last one to keep if others follow."""
        positions = [position_of(item.reference) for item in before]
        last = max((position for position in positions if position is not None), default=None)
        return (head.end, None) if last is None or last + 1 >= head.end else (last + 1, last)

    def _reference(
        self,
        head: SaveState,
        item: SnapshotMessage,
        redacted: Mapping[int, Any],
        updated: list[tuple[int, Any]],
    ) -> Reference:
        reference = item.reference
        if reference is None:
            return {"message": item.message}
        if item.message is None:
            return reference
        if not isinstance(reference, int):
            return {**reference, "message": item.message}
        if reference in redacted:
            # The redacted version stays.
            return reference
        if self._may_replace(head, reference, item.message):
            updated.append((reference, item.message))
            return reference
        return {"message": item.message, "position": reference}

    def _may_replace(self, head: SaveState, position: int, message: Any) -> bool:
        """Return whether a changed message replaces the stored one.

        A guardrail replaces the user's last message, whose original no snapshot may keep. The
        transcription of a bidirectional agent replaces its placeholder. Any other change is an
        agent's own version of a message, such as a shortened tool result.
        """
        is_last = position == head.end - 1
        if is_last and message.get("role") == "user":
            return True
        if not is_last and b'"conversation_manager_state": ' in self._data[self._stop :]:
            return False
        return not self._store.is_in_other_snapshot(head.agent, position, but=self._snapshot_id)

    # --- document and state -------------------------------------------------------------------

    def _finish(
        self, head: SaveState, known: KnownAgent | None, placement: _Placement
    ) -> SnapshotWrite:
        document = mask_document(self._document, self._corrections)
        write = SnapshotWrite(
            document,
            to_ranges(placement.references),
            placement.appended,
            placement.keep,
            placement.kind,
            placement.updated,
        )
        if self._snapshot_id != LATEST_SNAPSHOT_ID:
            self._state = known.state if known is not None else None
            return write
        self._state = _state_of(head, write)
        is_new = known is None or known.state != self._state
        return replace(write, state=self._state) if is_new else write

    def _mask(self, placement: _Placement) -> None:
        """Mask the texts that were redacted since the writer read them."""
        secrets = self._corrections.secrets
        if not secrets:
            return

        def masked(message: Any) -> Any:
            return masking.mask_texts(message, secrets, free=False)

        placement.appended = [masked(message) for message in placement.appended]
        placement.updated = [(at, masked(message)) for at, message in placement.updated]
        placement.references = [
            item if isinstance(item, int) else {**item, "message": masked(item["message"])}
            for item in placement.references
        ]


def _split(
    messages: list[SnapshotMessage],
) -> tuple[list[SnapshotMessage], list[SnapshotMessage]]:
    """Split after the last known message."""
    stop = len(messages)
    while stop and messages[stop - 1].reference is None:
        stop -= 1
    return messages[:stop], messages[stop:]


def _state_of(head: SaveState, write: SnapshotWrite) -> AgentState:
    state = state_in_document(write.document)
    base = head.end if write.keep is None else write.keep + 1
    length = base + len(write.appended)
    is_complete = write.messages == ([[0, length]] if length else [])
    with contextlib.suppress(json_documents.UnstructuredError):
        state = AgentState(
            state=json_documents.decode_bytes(state.state),
            conversation_manager_state=json_documents.decode_bytes(
                state.conversation_manager_state
            ),
            internal_state=json_documents.decode_bytes(state.internal_state),
        )
    return state if is_complete else holding(state, write.messages, length)


def _stale(head: SaveState) -> StaleSessionError:
    return StaleSessionError(
        f"session {head.session} was redacted or rewound, or messages were deleted, after agent "
        f"{head.agent.agent_id!r} read it: restore the agent and try again"
    )
