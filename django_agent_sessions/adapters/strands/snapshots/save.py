"""One save of an agent's snapshot: what is new, and where it belongs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from django_agent_sessions.adapters.strands.live_redaction import RedactionLog
from django_agent_sessions.adapters.strands.restore import check_dialect
from django_agent_sessions.content import masking
from django_agent_sessions.exceptions import StaleSessionError
from django_agent_sessions.models import Branch
from django_agent_sessions.store.snapshots import (
    LATEST_SNAPSHOT_ID,
    SaveState,
    SnapshotStorageStore,
    SnapshotWrite,
    references_to_window,
    state_in_document,
)
from django_agent_sessions.values.records import AgentState

from . import json_documents, references
from .alignment import Aligner, Changed, MessageBytes, New, Piece, Shared
from .cache import KnownAgent
from .saved_redaction import mask_document, note_redacted, raw_by_position

logger = logging.getLogger("django_agent_sessions")


class _RowsRequiredError(Exception):
    """The cached data are not sufficient: the rows must be read."""


class _Rows:
    """The conversation in the database."""

    def __init__(
        self, store: SnapshotStorageStore, head: SaveState, known: KnownAgent | None
    ) -> None:
        placed = store.store.messages.positioned(head.agent)
        self.contents = {row.position: row.payload for row in placed if row.redacted}
        self.references = references.ranges_of([row.position for row in placed])
        # A redacted message is recognized by its content before the redaction.
        before = raw_by_position(known, self.contents) if self.contents else {}
        self.text = MessageBytes.of(
            before.get(row.position) or json_documents.dump_document(row.payload) for row in placed
        )


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
        self._text = MessageBytes.of(())
        self._document: Any = None
        self._saving = SnapshotWrite(None, [])
        self._state: AgentState | None = None

    def plan(self, head: SaveState) -> SnapshotWrite:
        """Return what to write.

        Raises ``StaleSessionError`` if the writer may still have redacted texts that are not known.
        """
        check_dialect(head.agent)
        known = self._known
        if known is not None and known.agent != head.agent.id:
            known = None
        stale = self._is_stale(head, known)
        self._outdated = bool(known and known.outdated)
        try:
            if stale or known is None or known.text is None or not _is_current(known, head):
                raise _RowsRequiredError
            saving = self._plan_by_bytes(head, known, known.text)
        except _RowsRequiredError:
            saving = self._plan_by_rows(head, known)
        self._document = json_documents.loads_without_messages(
            self._data, self._first, self._text.stop
        )
        if stale and known is not None:
            stored = self._store.stored_snapshot(head.agent, known.snapshot_id)
            note_redacted(self._corrections, known, *stored)
        return self._finish(head, known, saving)

    def known(self, head: SaveState) -> KnownAgent:
        """Return what the storage knows after the write."""
        saving, text = self._saving, self._text
        return KnownAgent(
            session=head.session,
            agent=head.agent.id,
            epoch=head.epoch,
            revision=head.revision,
            last=head.last,
            branch=0,
            messages=saving.messages,
            text=text,
            snapshot_id=self._snapshot_id,
            document=self._document,
            state=self._state,
            corrections=self._corrections,
            outdated=self._outdated,
        )

    def _is_stale(self, head: SaveState, known: KnownAgent | None) -> bool:
        if known is None:
            exists = head.revision is not None or head.last is not None
            if exists and head.epoch not in (0, self._epoch):
                raise _stale(head)
            return False
        if head.epoch == known.epoch:
            return False
        if known.text is None:
            raise _stale(head)
        if known.last is not None and not self._store.is_there(head.agent, known.last):
            # The conversation was rewound, and the moved messages may have been redacted.
            raise _stale(head)
        return True

    # --- messages -----------------------------------------------------------------------------

    def _plan_by_bytes(
        self, head: SaveState, known: KnownAgent, text: MessageBytes
    ) -> SnapshotWrite:
        pieces, self._text = Aligner(text).align(self._data, self._first)
        redacted: set[int] = set()
        changed = [piece for piece in pieces if isinstance(piece, Changed)]
        if changed:
            found_positions = [_position(known.messages, piece.place) for piece in changed]
            positions = [position for position in found_positions if position is not None]
            redacted = self._store.redacted_positions(head.agent, positions)
            if redacted:
                raise _RowsRequiredError
        return self._plan_messages(head, known, pieces, known.messages, {}, by_rows=False)

    def _plan_by_rows(self, head: SaveState, known: KnownAgent | None) -> SnapshotWrite:
        rows = _Rows(self._store, head, known)
        pieces, self._text = Aligner(rows.text).align(self._data, self._first)
        if rows.contents:
            self._note_redacted(pieces, rows)
        return self._plan_messages(
            head, known, pieces, rows.references, rows.contents, by_rows=True
        )

    def _note_redacted(self, pieces: Sequence[Piece], rows: _Rows) -> None:
        """Record redactions of messages that this writer has with their original content."""
        for piece in pieces:
            if isinstance(piece, New):
                continue
            first, stop = (
                (piece.first, piece.stop)
                if isinstance(piece, Shared)
                else (piece.place, piece.place + 1)
            )
            index = first
            for span in references.slice_references(rows.references, first, stop):
                for position in range(*span):
                    if position in rows.contents:
                        raw = (
                            piece.message
                            if isinstance(piece, Changed)
                            else json_documents.message_at(
                                rows.text.data, rows.text.offsets[index]
                            )[0]
                        )
                        content = rows.contents[position]
                        if raw != content:
                            self._outdated = True
                            removed = masking.searchable_texts(masking.masked_texts(raw, content))
                            self._corrections.secrets |= removed
                    index += 1

    def _plan_messages(
        self,
        head: SaveState,
        known: KnownAgent | None,
        pieces: Sequence[Piece],
        known_references: list[Any],
        redacted: dict[int, Any],
        *,
        by_rows: bool,
    ) -> SnapshotWrite:
        matched = max((at for at, p in enumerate(pieces) if not isinstance(p, New)), default=-1)
        result: list[Any] = []
        updated: list[tuple[int, Any]] = []
        for piece in pieces[: matched + 1]:
            if isinstance(piece, Shared):
                references.add_all(
                    result,
                    list(references.slice_references(known_references, piece.first, piece.stop)),
                )
            elif isinstance(piece, New):
                if not by_rows:
                    raise _RowsRequiredError
                result.append({"message": piece.message})
            else:
                self._place_changed(head, piece, known_references, redacted, result, updated)
        new = [piece.message for piece in pieces[matched + 1 :] if isinstance(piece, New)]
        keep, kind, end = None, str(Branch.Kind.REWOUND), head.end
        reached = references.last_position(result)
        if new and reached is not None and reached + 1 < end:
            if not by_rows:
                raise _RowsRequiredError
            keep, end = reached, reached + 1
            if known is not None and (known.revision, known.end) != (head.revision, head.end):
                kind = str(Branch.Kind.CONFLICT)
                logger.warning(
                    "agent %s of session %s was saved by two writers at once: messages from "
                    "position %d on were moved to a branch",
                    head.agent.id,
                    head.session,
                    end,
                )
        references.add_range(result, end, end + len(new))
        return SnapshotWrite(None, result, new, keep, kind, updated)

    def _place_changed(
        self,
        head: SaveState,
        piece: Changed,
        known_references: list[Any],
        redacted: dict[int, Any],
        result: list[Any],
        updated: list[tuple[int, Any]],
    ) -> None:
        (item,) = references.slice_references(known_references, piece.place, piece.place + 1)
        if not isinstance(item, list):
            result.append({**item, "message": piece.message})
            return
        position = item[0]
        if position in redacted:
            # The redacted version stays.
            references.add_range(result, *item)
        elif self._may_replace(head, position, piece.message):
            references.add_range(result, *item)
            updated.append((position, piece.message))
        else:
            result.append({"message": piece.message, "position": position})

    def _may_replace(self, head: SaveState, position: int, message: Any) -> bool:
        """Return whether a changed message replaces the stored one.

        A guardrail replaces the user's last message, whose original no snapshot may keep. The
        transcription of a bidirectional agent replaces its placeholder. Any other change is an
        agent's own version of a message, such as a shortened tool result.
        """
        is_last = position == head.end - 1
        if is_last and message.get("role") == "user":
            return True
        if not is_last and b'"conversation_manager_state": ' in self._data[self._text.stop :]:
            return False
        return not self._store.is_in_other_snapshot(head.agent, position, but=self._snapshot_id)

    # --- document and state -------------------------------------------------------------------

    def _finish(
        self, head: SaveState, known: KnownAgent | None, saving: SnapshotWrite
    ) -> SnapshotWrite:
        document = mask_document(self._document, self._corrections)
        appended, messages = saving.appended, saving.messages
        secrets = self._corrections.secrets
        if secrets and (self._outdated or (known is not None and known.epoch != head.epoch)):
            appended = [masking.mask_texts(message, secrets, free=False) for message in appended]
            messages = [
                item
                if isinstance(item, list)
                else {**item, "message": masking.mask_texts(item["message"], secrets, free=False)}
                for item in messages
            ]
        state = None
        if self._snapshot_id == LATEST_SNAPSHOT_ID:
            self._state = _state_of(document, messages, head, saving)
            if known is None or known.state != self._state:
                state = self._state
        elif known is not None:
            self._state = known.state
        self._saving = SnapshotWrite(
            document, messages, appended, saving.keep, saving.kind, saving.updated, state
        )
        return self._saving


def _state_of(
    document: Any, messages: list[Any], head: SaveState, saving: SnapshotWrite
) -> AgentState:
    state = state_in_document(document)
    base = head.end if saving.keep is None else saving.keep + 1
    length = base + len(saving.appended)
    is_complete = messages == ([[0, length]] if length else [])
    try:
        return AgentState(
            state=json_documents.decode_bytes(state.state),
            conversation_manager_state=json_documents.decode_bytes(
                state.conversation_manager_state
            ),
            internal_state=json_documents.decode_bytes(state.internal_state),
            window=None if is_complete else references_to_window(messages, length),
        )
    except json_documents.UnstructuredError:
        return AgentState(
            state.state,
            state.conversation_manager_state,
            state.internal_state,
            None if is_complete else references_to_window(messages, length),
        )


def _is_current(known: KnownAgent, head: SaveState) -> bool:
    """Return whether all known messages are unchanged and at their positions."""
    return known.branch == 0 and known.last == head.last


def _position(known_references: list[Any], index: int) -> int | None:
    (item,) = references.slice_references(known_references, index, index + 1)
    position: int | None = item[0] if isinstance(item, list) else item.get("position")
    return position


def _stale(head: SaveState) -> StaleSessionError:
    return StaleSessionError(
        f"session {head.session} was redacted or rewound after agent {head.agent.agent_id!r} read "
        "it: restore the agent and try again"
    )
