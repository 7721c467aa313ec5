"""Redaction in snapshots, which contain an agent's state and refer to messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from django_agent_sessions.models import Session, SessionMessage, Snapshot
from django_agent_sessions.store.contents import (
    MessageRef,
    message_ref_of,
    position_range,
    snapshot_batches,
    snapshots_with_variants,
)

from .findings import Findings, place_of, with_subpath
from .scopes import Place

# Data of the application or of a tool.
_OWN_DATA = frozenset({"state", "stash"})
_VERSIONS = ("scope", "schema_version")
_SHORT = 32


def search_snapshots(using: str, session: Session, findings: Findings) -> None:
    """Search the own content of snapshots, after the messages.

    Writing a snapshot requires the lock of the session's row, which a redaction holds.
    """
    changed = _changed_messages(findings)
    rows = Snapshot.objects.using(using).filter(session=session).order_by("pk")
    for part in snapshot_batches(rows):
        redacted = _redacted_messages(using, part)
        for row in part:
            columns: dict[str, Any] = {}
            document = _mask_document(row, findings)
            if document is not row.document:
                columns["document"] = document
            messages = _mask_variants(row, changed, redacted, session.legal_hold, findings)
            if messages is not row.messages:
                columns["messages"] = messages
            findings.change(row, columns)
            findings.keep_id(row.snapshot_id, _place(row, "snapshot_id"))


def drop_message_variants(using: str, session: Session, findings: Findings) -> None:
    """Replace the variants of redacted messages in snapshots with references to the messages."""
    changed = _changed_messages(findings)
    if not changed or session.legal_hold:
        return
    for part in snapshot_batches(snapshots_with_variants(using, session.pk)):
        for row in part:
            messages = _drop_variants(row, changed)
            if messages is not row.messages:
                findings.change(row, {"messages": messages}, follows=True)


def _changed_messages(findings: Findings) -> set[MessageRef]:
    rows = (change.row for change in findings.changes if change.message is not None)
    return {
        MessageRef(row.agent_id, row.branch, row.message_id)
        for row in rows
        if isinstance(row, SessionMessage)
    }


def _mask_document(row: Snapshot, findings: Findings) -> Any:
    place = _place(row, "document")
    document = row.document
    if not isinstance(document, dict):
        return findings.mask(document, place)
    changed = {
        key: _mask_value(row, key, value, with_subpath(place, (key,)), findings)
        for key, value in document.items()
    }
    return document if _same(document, changed) else changed


def _mask_value(row: Snapshot, key: str, value: Any, place: Place, findings: Findings) -> Any:
    if isinstance(value, str) and _is_format_field(key, value):
        # Fields of the format, without which the SDK cannot restore the snapshot.
        findings.keep_id(value, place)
        return value
    if key != "data" or not isinstance(value, dict):
        return findings.mask(value, place, free=key == "app_data")
    own_data = {name: item for name, item in value.items() if name in _OWN_DATA}
    ids = {"id"} if row.multi_agent_id is not None and isinstance(value.get("id"), str) else set()
    for name in ids:
        findings.keep_id(value[name], with_subpath(place, (name,)))
    rest = {name: item for name, item in value.items() if name not in own_data.keys() | ids}
    masked = findings.mask(rest, place)
    free = {
        name: findings.mask(item, with_subpath(place, (name,)), free=row.multi_agent_id is None)
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


def _mask_variants(
    row: Snapshot,
    changed: Collection[MessageRef],
    redacted: Collection[MessageRef],
    legal_hold: bool,
    findings: Findings,
) -> Any:
    """Mask the variants of messages in a snapshot, or replace those of changed messages."""
    if not isinstance(row.messages, list):
        return findings.mask(row.messages, _place(row, "messages"))
    masked_messages: list[Any] = []
    for index, item in enumerate(row.messages):
        spot = message_ref_of(row, item)
        if not isinstance(item, dict) or (legal_hold and (spot in changed or spot in redacted)):
            # A reference; or a variant that a legal hold keeps.
            masked_messages.append(item)
            continue
        place = with_subpath(_place(row, "messages"), (index, "message"))
        message = findings.mask(item.get("message"), place)
        if spot is not None and spot in changed:
            masked_messages.append(position_range(spot))
        elif message is item.get("message"):
            masked_messages.append(item)
        else:
            masked_messages.append({**item, "message": message})
    same = all(item is before for item, before in zip(masked_messages, row.messages, strict=True))
    return row.messages if same else masked_messages


def _drop_variants(row: Snapshot, changed: Collection[MessageRef]) -> Any:
    if not isinstance(row.messages, list):
        return row.messages
    spots = [message_ref_of(row, item) for item in row.messages]
    if not any(spot in changed for spot in spots if spot is not None):
        return row.messages
    return [
        position_range(spot) if spot is not None and spot in changed else item
        for spot, item in zip(spots, row.messages, strict=True)
    ]


def _redacted_messages(using: str, rows: Iterable[Snapshot]) -> set[MessageRef]:
    """Return the messages with variants in these snapshots that are redacted."""
    wanted: dict[tuple[UUID | None, int], set[int]] = defaultdict(set)
    for row in rows:
        for item in row.messages if isinstance(row.messages, list) else ():
            if (spot := message_ref_of(row, item)) is not None:
                wanted[spot.agent, spot.branch].add(spot.position)
    redacted: set[MessageRef] = set()
    for (agent, branch), positions in wanted.items():
        messages = SessionMessage.objects.using(using).filter(agent=agent, branch=branch)
        messages = messages.filter(message_id__in=positions, redacted_at__isnull=False)
        there = messages.values_list("message_id", flat=True)
        redacted |= {MessageRef(agent, branch, position) for position in there}
    return redacted


def _place(row: Snapshot, column: str) -> Place:
    return place_of("snapshot", row, row.snapshot_id or "latest", column)
