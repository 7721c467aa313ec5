"""Redaction in the documents of snapshots."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django_agent_sessions.models import Snapshot

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
