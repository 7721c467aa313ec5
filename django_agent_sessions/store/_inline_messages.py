"""Messages in another form than in the conversation, which snapshots and agents store inline.

The columns of :attr:`ContentKind.REFERENCES` contain them, among references to other messages; see
`content.message_references`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import chain
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Model, QuerySet

from django_agent_sessions.content import codec
from django_agent_sessions.content.message_references import map_references, references_in
from django_agent_sessions.models import MAIN_BRANCH, SessionAgent, Snapshot
from django_agent_sessions.models.content_columns import ContentKind, content_columns_of
from django_agent_sessions.models.stored_text import StoredText

_PART = 50


class MessageRef(NamedTuple):
    """The position of a message."""

    agent: UUID | None
    branch: int
    position: int


def columns_of_references(row: Model) -> list[str]:
    """Return the columns of a row that contain references."""
    columns = content_columns_of(row).columns.items()
    return [name for name, kind in columns if kind is ContentKind.REFERENCES]


def map_inline_messages(
    row: Model, value: Any, change: Callable[[tuple[Any, ...], Any, MessageRef | None], Any]
) -> Any:
    """Change the inline messages in a row's references, and return them.

    ``change`` gets the path of a message in the value, the message, and the position of its
    original, and returns a message, or None for a reference to the original. The value is the same
    object if no message changed.
    """
    path = ("kept",) if isinstance(value, dict) else ()

    def changed(index: int, item: Any) -> Any:
        if not isinstance(item, dict):
            return item
        message, ref = item.get("message"), _ref_of(row, item)
        new = change((*path, index, "message"), message, ref)
        if new is message:
            return item
        if new is None and ref is not None:
            return [ref.position, ref.position + 1]
        return {**item, "message": new}

    return map_references(value, changed)


def keys_with_inline_messages(using: str, session: UUID, model: type[Model]) -> list[UUID]:
    """Return the primary keys of a model's rows in a session that have inline messages."""
    if model is SessionAgent:
        return [row.pk for row in _agents(using, session) if _has_inline_message(row)]
    return list(_snapshots(using, session).values_list("pk", flat=True))


def without_inline_messages(
    using: str, session: UUID, refs: Collection[MessageRef]
) -> Iterator[tuple[Model, dict[str, Any]]]:
    """Yield the rows with these messages inline, and their values with references instead."""
    wanted = set(refs)
    agents = {ref.agent for ref in wanted if ref.agent and ref.branch == MAIN_BRANCH}
    agents_of = _batches(_agents(using, session).filter(pk__in=agents))
    snapshots = _batches(_snapshots(using, session))

    def unless_wanted(path: tuple[Any, ...], message: Any, ref: MessageRef | None) -> Any:
        return None if ref in wanted else message

    for row in chain.from_iterable(chain(agents_of, snapshots)):
        before = {name: getattr(row, name) for name in columns_of_references(row)}
        after = {
            name: map_inline_messages(row, value, unless_wanted) for name, value in before.items()
        }
        if any(after[name] is not value for name, value in before.items()):
            yield row, after


def _ref_of(row: Model, item: dict[str, Any]) -> MessageRef | None:
    """Return the position of the original of an inline message, or None."""
    if not isinstance(item.get("position"), int):
        return None
    if isinstance(row, Snapshot):
        return MessageRef(row.agent_id, row.branch, item["position"])
    return MessageRef(row.pk, MAIN_BRANCH, item["position"])


def _has_inline_message(row: Model) -> bool:
    references = (references_in(getattr(row, name)) for name in columns_of_references(row))
    return any(isinstance(item, dict) for items in references for item in items or ())


def _snapshots(using: str, session: UUID) -> QuerySet[Snapshot]:
    """Return the session's snapshots that have inline messages, or may have, if sealed."""
    rows = Snapshot.objects.using(using).filter(session=session).order_by("pk").defer("document")
    if not codec.is_plain():
        return rows
    # References are lists of numbers; only an inline message contains a brace.
    return rows.annotate(references_text=StoredText("messages")).filter(
        references_text__contains="{"
    )


def _agents(using: str, session: UUID) -> QuerySet[SessionAgent]:
    """Return the session's agents that may have inline messages in their windows."""
    rows = SessionAgent.objects.using(using).filter(session=session, window__isnull=False)
    return rows.only("window", "session").order_by("pk")


def _batches(rows: QuerySet[Any]) -> Iterator[list[Any]]:
    """Read rows by keyset pagination, because a connection pooler has no cursors."""
    part = list(rows[:_PART])
    while part:
        yield part
        part = list(rows.filter(pk__gt=part[-1].pk)[:_PART])
