"""Redaction of the messages that rows have inline, among references to others."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django_agent_sessions.content.message_references import references_in
from django_agent_sessions.store.contents import (
    MessageRef,
    columns_of_references,
    map_inline_messages,
)

from .findings import RowFindings, with_subpath


def mask_inline_messages(found: RowFindings, changed: Collection[MessageRef]) -> None:
    """Mask the inline messages of a row, and replace those of changed messages by references."""
    for column in columns_of_references(found.copy.row):
        value, place = found.copy.values[column], found.place(column)

        def mask(path: tuple[Any, ...], message: Any, ref: MessageRef | None) -> Any:
            masked = found.mask(message, with_subpath(place, path))  # noqa: B023 - called at once
            return None if ref in changed else masked

        if references_in(value) is None:
            masked = found.mask(value, place)
        else:
            masked = map_inline_messages(found.copy.row, value, mask)
        if masked is not value:
            found.values[column] = masked


def drop_inline_messages(found: RowFindings, changed: Collection[MessageRef]) -> None:
    """Replace the inline messages of a row that are forms of changed messages by references."""

    def drop(path: tuple[Any, ...], message: Any, ref: MessageRef | None) -> Any:
        return None if ref in changed else message

    for column in columns_of_references(found.copy.row):
        value = found.copy.values[column]
        without = map_inline_messages(found.copy.row, value, drop)
        if without is not value:
            found.is_copy = True
            found.values[column] = without
