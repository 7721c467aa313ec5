"""Messages in another form than in the conversation, which snapshots and windows store themselves.

A *reference* is ``[first, stop]`` for messages of the conversation, or ``{"message": …}`` for a
*variant*, with the ``"position"`` of its original, if there is one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from django.db.models import QuerySet

from django_agent_sessions.content import codec
from django_agent_sessions.models import MAIN_BRANCH, SessionAgent, Snapshot
from django_agent_sessions.models.content_columns import ContentKind, content_columns_of
from django_agent_sessions.models.stored_text import StoredText

from ._content_rows import Copy

_PART = 50

VariantRow: TypeAlias = SessionAgent | Snapshot
"""A row that can store variants: of an agent with its window, or of a snapshot."""


class MessageRef(NamedTuple):
    """The position of a message."""

    agent: UUID | None
    branch: int
    position: int


def variants_column(row: VariantRow) -> str:
    """Return the column of a row that contains references."""
    columns = content_columns_of(row).columns.items()
    return next(name for name, kind in columns if kind is ContentKind.VARIANTS)


def references_in(value: Any) -> list[Any] | None:
    """Return the references of a snapshot or of a window; None if the value has none."""
    items = value.get("kept") if isinstance(value, dict) else value
    return items if isinstance(items, list) else None


def with_references(value: Any, items: list[Any]) -> Any:
    """Return the value of a snapshot or window with other references."""
    return {**value, "kept": items} if isinstance(value, dict) else items


def has_variants(row: VariantRow) -> bool:
    """Return whether a row stores messages itself."""
    items = references_in(getattr(row, variants_column(row)))
    return any(isinstance(item, dict) for item in items or ())


def snapshots_with_variants(using: str, session: UUID) -> QuerySet[Snapshot]:
    """Return the session's snapshots that store messages themselves."""
    rows = Snapshot.objects.using(using).filter(session=session).order_by("pk").defer("document")
    if not codec.is_plain():
        return rows
    # References are lists of numbers; only a stored message contains a brace.
    return rows.annotate(references_text=StoredText("messages")).filter(
        references_text__contains="{"
    )


def agents_with_windows(using: str, session: UUID) -> QuerySet[SessionAgent]:
    """Return the session's agents that may store messages in their windows."""
    rows = SessionAgent.objects.using(using).filter(session=session, window__isnull=False)
    return rows.only("window", "session").order_by("pk")


def message_ref_of(row: VariantRow, item: Any) -> MessageRef | None:
    """Return the position of the message that a row's reference is a variant of, or None."""
    if not isinstance(item, dict) or not isinstance(item.get("position"), int):
        return None
    if isinstance(row, Snapshot):
        return MessageRef(row.agent_id, row.branch, item["position"])
    return MessageRef(row.pk, MAIN_BRANCH, item["position"])


def position_range(ref: MessageRef) -> list[int]:
    """Return a reference to a message of the conversation."""
    return [ref.position, ref.position + 1]


def without_variants(
    using: str, session: UUID, refs: Collection[MessageRef]
) -> Iterator[tuple[Copy, dict[str, Any]]]:
    """Yield the rows with variants of messages, and their values with references instead."""
    wanted = set(refs)
    agents = {ref.agent for ref in wanted if ref.agent and ref.branch == MAIN_BRANCH}
    windows = _batches(agents_with_windows(using, session).filter(pk__in=agents))
    snapshots = _batches(snapshots_with_variants(using, session))
    for row in chain.from_iterable(chain(windows, snapshots)):
        column = variants_column(row)
        before = getattr(row, column)
        items = references_in(before) or []
        after = [
            position_range(ref) if (ref := message_ref_of(row, item)) in wanted and ref else item
            for item in items
        ]
        if after != items:
            new = {column: with_references(before, after)}
            yield Copy(row, content_columns_of(row), {column: before}), new


def _batches(rows: QuerySet[Any]) -> Iterator[list[Any]]:
    """Read rows by keyset pagination, because a connection pooler has no cursors."""
    part = list(rows[:_PART])
    while part:
        yield part
        part = list(rows.filter(pk__gt=part[-1].pk)[:_PART])
