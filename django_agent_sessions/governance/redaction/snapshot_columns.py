"""Redaction in snapshots and windows, which refer to messages and can have variants of them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django_agent_sessions.models import SessionAgent, Snapshot
from django_agent_sessions.store.contents import (
    MessageRef,
    VariantRow,
    message_ref_of,
    position_range,
    references_in,
    variants_column,
    with_references,
)

from .findings import RowFindings, with_subpath
from .scopes import Place

# Data of the application or of a tool.
_OWN_DATA = frozenset({"state", "stash"})
_VERSIONS = ("scope", "schema_version")
_SHORT = 32


def mask_snapshot_document(found: RowFindings, document: Any, place: Place) -> Any:
    """Mask a snapshot's document, except the fields of its format."""
    if not isinstance(document, dict):
        return found.mask(document, place)
    changed = {
        key: _mask_value(found, key, value, with_subpath(place, (key,)))
        for key, value in document.items()
    }
    return document if _same(document, changed) else changed


def mask_variants(found: RowFindings, changed: Collection[MessageRef]) -> None:
    """Mask the variants of messages in a row, and drop those of changed messages."""
    row = _row_with_variants(found)
    column = variants_column(row)
    value = found.copy.values[column]
    messages = references_in(value)
    if messages is None:
        masked = found.mask(value, found.place(column))
    else:
        items = [
            _mask_variant(found, index, item, message_ref_of(row, item), changed)
            for index, item in enumerate(messages)
        ]
        same = all(item is before for item, before in zip(items, messages, strict=True))
        masked = value if same else with_references(value, items)
    if masked is not value:
        found.values[column] = masked


def drop_variants(found: RowFindings, changed: Collection[MessageRef]) -> None:
    """Replace the variants of changed messages in a row with references."""
    row = _row_with_variants(found)
    column = variants_column(row)
    value = found.copy.values[column]
    messages = references_in(value) or []
    refs = [message_ref_of(row, item) for item in messages]
    if any(ref in changed for ref in refs if ref is not None):
        found.is_copy = True
        items = [
            position_range(ref) if ref is not None and ref in changed else item
            for ref, item in zip(refs, messages, strict=True)
        ]
        found.values[column] = with_references(value, items)


def _row_with_variants(found: RowFindings) -> VariantRow:
    row = found.copy.row
    assert isinstance(row, SessionAgent | Snapshot)  # noqa: S101 - as declared by its columns
    return row


def _snapshot(found: RowFindings) -> Snapshot:
    row = found.copy.row
    assert isinstance(row, Snapshot)  # noqa: S101 - as declared by its columns
    return row


def _mask_value(found: RowFindings, key: str, value: Any, place: Place) -> Any:
    if isinstance(value, str) and _is_format_field(key, value):
        # Fields of the format, without which the SDK cannot restore the snapshot.
        found.keep_id(value, place)
        return value
    if key != "data" or not isinstance(value, dict):
        return found.mask(value, place, free=key == "app_data")
    is_agent = _snapshot(found).multi_agent_id is None
    own_data = {name: item for name, item in value.items() if name in _OWN_DATA}
    ids = set() if is_agent or not isinstance(value.get("id"), str) else {"id"}
    for name in ids:
        found.keep_id(value[name], with_subpath(place, (name,)))
    rest = {name: item for name, item in value.items() if name not in own_data.keys() | ids}
    masked = found.mask(rest, place)
    free = {
        name: found.mask(item, with_subpath(place, (name,)), free=is_agent)
        for name, item in own_data.items()
    }
    if masked is rest and _same(own_data, free):
        return value
    return _merge(value, own_data.keys() | ids, masked, free)


def _merge(
    value: dict[str, Any],
    separate_keys: Collection[str],
    masked: dict[str, Any],
    free: dict[str, Any],
) -> dict[str, Any]:
    """Merge parts in the original order; a masked key keeps its position."""
    others = iter(masked.items())
    return dict(
        (name, free.get(name, item)) if name in separate_keys else next(others)
        for name, item in value.items()
    )


def _same(before: dict[str, Any], after: dict[str, Any]) -> bool:
    return all(after[key] is item for key, item in before.items())


def _is_format_field(key: str, value: str) -> bool:
    if key in _VERSIONS:
        return len(value) <= _SHORT
    if key != "created_at":
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _mask_variant(
    found: RowFindings,
    index: int,
    item: Any,
    ref: MessageRef | None,
    changed: Collection[MessageRef],
) -> Any:
    if not isinstance(item, dict):
        return item
    row = _row_with_variants(found)
    place = found.place(variants_column(row))
    if isinstance(row, SessionAgent):
        place = with_subpath(place, ("kept",))
    place = with_subpath(place, (index, "message"))
    message = found.mask(item.get("message"), place)
    if ref is not None and ref in changed:
        return position_range(ref)
    return item if message is item.get("message") else {**item, "message": message}
