"""Delete the last message of a conversation, or all of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from uuid import UUID

from django.db import transaction
from django.db.models import F, Max, Q

from django_agent_sessions.blobs import delete_unreferenced, is_enabled, restore_binaries
from django_agent_sessions.content import dialects, exact_json
from django_agent_sessions.db.retries import tracked_atomic, write
from django_agent_sessions.db.write_hooks import on_written
from django_agent_sessions.exceptions import (
    SessionConflictError,
    SessionNotFoundError,
)
from django_agent_sessions.models import (
    MAIN_BRANCH,
    MessageFeedback,
    Session,
    SessionAgent,
    SessionMessage,
    deletion,
)
from django_agent_sessions.models.content_field import sealed_columns
from django_agent_sessions.models.fields import CorruptPayload, decode_payload
from django_agent_sessions.models.querysets import MessageQuerySet
from django_agent_sessions.models.removal import check_removable
from django_agent_sessions.models.removed_messages import remember_removed
from django_agent_sessions.sql import message_writes
from django_agent_sessions.values.ids import new_id
from django_agent_sessions.values.records import AgentRecord, PositionedPayload

from ._counters import recounting, subtract_messages
from ._message_reading import log_corrupt
from ._queries import conversation, lock_session_row, session_rows
from .locking import lock_session, with_session_lock


def pop_message(using: str, agent: AgentRecord) -> PositionedPayload | None:
    """Delete and return the last message that is not corrupt; None if there is none."""
    while (popped := _pop_row(using, agent)) is not None:
        on_written(using, agent.session, "pop")
        if not isinstance(popped.payload, CorruptPayload):
            return popped
        log_corrupt(agent, popped.position, "deleted")
    return None


def _pop_row(using: str, agent: AgentRecord) -> PositionedPayload | None:
    what = f"popping from agent {agent.agent_id!r}"
    mark = new_id()
    unconfirmed: tuple[UUID, PositionedPayload] | None = None

    def pop(unsure: bool) -> PositionedPayload | None:
        nonlocal unconfirmed
        with tracked_atomic(using):
            if (
                unsure
                and unconfirmed is not None
                and _was_popped(using, agent, mark, unconfirmed[0], what)
            ):
                return unconfirmed[1]
            # First, because it takes the lock that appends wait for.
            if not _count_and_mark(using, agent, mark, what):
                return None
            row = message_writes.pop(using, agent.id, branch=agent.branch)
            if row is None:
                transaction.set_rollback(True, using)
                return None
            if row.has_feedback:
                MessageFeedback.objects.using(using).filter(message=row.key).delete()
            # A copy may have been replaced by a message with an error, or without one.
            copies_have_errors = _copies_have_errors(using, agent, row.original)
            errors = row.has_error and not any(copies_have_errors)
            if copies_have_errors or errors:
                session = session_rows(using).filter(pk=agent.session)
                subtract_messages(session, -bool(copies_have_errors), int(errors))
            remember_removed(SessionAgent, using, [(agent.id, row.key, row.position)])
            # Raises, and so keeps the message, if one of its binaries is missing.
            popped = _popped_payload(using, agent, row.position, row.text, row.redacted)
            unconfirmed = (row.key, popped)
            return popped

    return write(using, pop, what=what, savepoint=False)


def _count_and_mark(using: str, agent: AgentRecord, mark: UUID, what: str) -> bool:
    """Decrement the message counter and write the mark, in the session's row."""
    rows = session_rows(using).filter(pk=agent.session)
    if subtract_messages(rows.not_held(), 1, last_write=mark, change=F("change") + 1):
        return True
    check_removable(rows, what)
    return False


def _copies_have_errors(using: str, agent: AgentRecord, original: UUID) -> list[bool]:
    """Return of the message's copies on other branches whether they have an error."""
    others = SessionMessage.objects.using(using).filter(agent=agent.id).exclude(branch=agent.branch)
    copies = others.filter(Q(pk=original) | Q(source=original)).order_by()
    return list(copies.values_list("has_error", flat=True))


def _was_popped(using: str, agent: AgentRecord, mark: UUID, key: UUID, what: str) -> bool:
    """Return whether a pop was committed although its connection was lost."""
    # Locked, because a server may still commit after its client disconnected.
    session = lock_session(using, agent.session)
    if session is not None and session.last_write == mark:
        return True
    if conversation(using, agent).filter(pk=key).exists():
        return False
    raise SessionConflictError(
        f"{what}: the connection was lost, and a message may have been deleted; read the "
        "conversation before the next pop"
    )


def _popped_payload(
    using: str, agent: AgentRecord, position: int, text: str, redacted: bool
) -> PositionedPayload:
    payload = decode_payload(text)
    if exact_json.has_blobs(text) and not isinstance(payload, CorruptPayload):
        (payload,) = restore_binaries(using, agent.session, [payload], agent.dialect, taken=True)
        lock_session_row(using, agent.session)
        delete_unreferenced(using, agent.session)
    return PositionedPayload(position, payload, redacted)


def clear_messages(using: str, agent: AgentRecord, epoch: int | None) -> int:
    """Delete all messages of an agent's branch; return their number."""
    what = f"clearing agent {agent.agent_id!r}"
    rows = conversation(using, agent).order_by()

    def clear(session: Session) -> int:
        messages = SessionMessage.objects.using(using).filter(agent=agent.id)
        if messages.exclude(branch=agent.branch).exists():
            with recounting(using, agent):
                deleted: int = deletion.delete_message_rows(rows)[0]
        else:
            errors = rows.filter(has_error=True).count() if session.error_count else 0
            if deleted := deletion.delete_message_rows(rows)[0]:
                subtract_messages(session_rows(using).filter(pk=agent.session), deleted, errors)
        has_window = dialects.get(agent.dialect).has_windows and agent.branch == MAIN_BRANCH
        if deleted and has_window:
            # The window may contain messages in the form in which the agent held them. Without a
            # window, a conversation manager's count of removed messages would be the offset.
            empty = sealed_columns(
                SessionAgent, agent.id, {"window": {"kept": [], "tail": 0}}, agent.session
            )
            agents = SessionAgent.objects.using(using).filter(pk=agent.id, window__isnull=False)
            agents.update(**empty)
        if deleted and is_enabled():
            delete_unreferenced(using, agent.session)
        return deleted

    try:
        deleted = with_session_lock(
            using, agent.session, clear, what=what, epoch=epoch, removes=rows.exists
        )
    except SessionNotFoundError:
        return 0
    if deleted:
        on_written(using, agent.session, "clear")
    return deleted


def delete_messages(using: str, agent: AgentRecord, keys: Collection[UUID]) -> int:
    """Delete messages, with their copies on other branches; return the number without copies.

    Later messages move up. ``keys`` are those of messages that no SDK restores: an SDK may refer to
    the positions of others.
    """
    what = f"deleting messages of agent {agent.agent_id!r}"
    rows = SessionMessage.objects.using(using).filter(agent=agent.id).order_by()
    named = rows.filter(pk__in=keys)

    def delete(session: Session) -> int:
        originals = {source or key for key, source in named.values_list("id", "source")}
        doomed = rows.filter(Q(pk__in=originals) | Q(source__in=originals))
        positions = _positions_by_branch(doomed)
        if not positions:
            return 0
        session_rows(using).filter(pk=agent.session).update(change=F("change") + 1)
        with recounting(using, agent):
            deletion.delete_message_rows(doomed)
        for branch, gone in positions.items():
            _close_gaps(rows.filter(branch=branch), gone)
        if MAIN_BRANCH in positions:
            rows.mark_moved({agent.id: positions[MAIN_BRANCH][0] - 1})
        if is_enabled():
            delete_unreferenced(using, agent.session)
        return len(originals)

    deleted = with_session_lock(using, agent.session, delete, what=what, removes=named.exists)
    if deleted:
        on_written(using, agent.session, "clear")
    return deleted


def _positions_by_branch(rows: MessageQuerySet) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for branch, position in rows.order_by("branch", "message_id").values_list(
        "branch", "message_id"
    ):
        found.setdefault(branch, []).append(position)
    return found


def _close_gaps(rows: MessageQuerySet, gone: Sequence[int]) -> None:
    """Move the messages of a branch up to positions that were deleted."""
    last = rows.aggregate(last=Max("message_id"))["last"]
    if last is None or last < gone[0]:
        return
    # In two steps, because some databases check for duplicates after each row.
    away = last + 1
    rows.filter(message_id__gt=gone[0]).update(message_id=F("message_id") + away)
    for number, (start, end) in enumerate(pairwise([*gone, last + 1]), 1):
        moved = rows.filter(message_id__gt=start + away, message_id__lt=end + away)
        moved.update(message_id=F("message_id") - (away + number))
