"""Looking for what to redact in snapshots, which hold an agent's state and refer to messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from django_agent_sessions.models import Session, SessionMessage, Snapshot
from django_agent_sessions.store.overrides import (
    Spot,
    in_parts,
    plain,
    snapshots_with_forms,
    spot_of,
)

from .findings import Findings, below, place_of
from .scopes import Place

# What an application or a tool put there as it liked.
_OWN_DATA = frozenset({"state", "stash"})
_VERSIONS = ("scope", "schema_version")
_SHORT = 32


def look_at_snapshots(using: str, session: Session, findings: Findings) -> None:
    """Looks at all that snapshots hold themselves, after the messages were looked at.

    Nobody writes a snapshot without the session's row, which a redaction has locked.
    """
    changed = _changed_messages(findings)
    rows = Snapshot.objects.using(using).filter(session=session).order_by("pk")
    for part in in_parts(rows):
        redacted = _redacted(using, part)
        for row in part:
            columns: dict[str, Any] = {}
            document = _document(row, findings)
            if document is not row.document:
                columns["document"] = document
            messages = _forms(row, changed, redacted, session.legal_hold, findings)
            if messages is not row.messages:
                columns["messages"] = messages
            findings.change(row, columns)
            findings.keep_id(row.snapshot_id, _place(row, "snapshot_id"))


def look_at_forms(using: str, session: Session, findings: Findings) -> None:
    """Lets snapshots refer to the messages that are redacted, where they have another form of one."""
    changed = _changed_messages(findings)
    if not changed or session.legal_hold:
        return
    for part in in_parts(snapshots_with_forms(using, session.pk)):
        for row in part:
            messages = _without(row, changed)
            if messages is not row.messages:
                findings.change(row, {"messages": messages}, follows=True)


def _changed_messages(findings: Findings) -> set[Spot]:
    rows = (change.row for change in findings.changes if change.message is not None)
    return {
        Spot(row.agent_id, row.branch, row.message_id)
        for row in rows
        if isinstance(row, SessionMessage)
    }


def _document(row: Snapshot, findings: Findings) -> Any:
    place = _place(row, "document")
    document = row.document
    if not isinstance(document, dict):
        return findings.mask(document, place)
    changed = {
        key: _part(row, key, value, below(place, (key,)), findings)
        for key, value in document.items()
    }
    return document if _same(document, changed) else changed


def _part(row: Snapshot, key: str, value: Any, place: Place, findings: Findings) -> Any:
    if isinstance(value, str) and _is_given(key, value):
        # The SDK's own: without them it restores nothing.
        findings.keep_id(value, place)
        return value
    if key != "data" or not isinstance(value, dict):
        return findings.mask(value, place, free=key == "app_data")
    own = {name: item for name, item in value.items() if name in _OWN_DATA}
    ids = {"id"} if row.multi_agent_id is not None and isinstance(value.get("id"), str) else set()
    for name in ids:
        findings.keep_id(value[name], below(place, (name,)))
    rest = {name: item for name, item in value.items() if name not in own.keys() | ids}
    masked = findings.mask(rest, place)
    free = {
        name: findings.mask(item, below(place, (name,)), free=row.multi_agent_id is None)
        for name, item in own.items()
    }
    if masked is rest and _same(own, free):
        return value
    return _merged(value, own.keys() | ids, masked, free)


def _merged(
    value: dict[str, Any], apart: Collection[str], masked: dict[str, Any], free: dict[str, Any]
) -> dict[str, Any]:
    """Puts parts together in the order in which they were; a key that is masked keeps its place."""
    others = iter(masked.items())
    return dict(
        (name, free.get(name, item)) if name in apart else next(others)
        for name, item in value.items()
    )


def _same(before: dict[str, Any], after: dict[str, Any]) -> bool:
    return all(after[key] is item for key, item in before.items())


def _is_given(key: str, value: str) -> bool:
    if key in _VERSIONS:
        return len(value) <= _SHORT
    if key != "created_at":
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _forms(
    row: Snapshot,
    changed: Collection[Spot],
    redacted: Collection[Spot],
    held: bool,
    findings: Findings,
) -> Any:
    """Masks the messages that a snapshot has in a form of its own, or drops them."""
    if not isinstance(row.messages, list):
        return findings.mask(row.messages, _place(row, "messages"))
    found: list[Any] = []
    for at, item in enumerate(row.messages):
        spot = spot_of(row, item)
        if not isinstance(item, dict) or (held and (spot in changed or spot in redacted)):
            # Numbers; or what is hidden, as an original is.
            found.append(item)
            continue
        place = below(_place(row, "messages"), (at, "message"))
        message = findings.mask(item.get("message"), place)
        if spot is not None and spot in changed:
            found.append(plain(spot))
        elif message is item.get("message"):
            found.append(item)
        else:
            found.append({**item, "message": message})
    same = all(item is before for item, before in zip(found, row.messages, strict=True))
    return row.messages if same else found


def _without(row: Snapshot, changed: Collection[Spot]) -> Any:
    if not isinstance(row.messages, list):
        return row.messages
    spots = [spot_of(row, item) for item in row.messages]
    if not any(spot in changed for spot in spots if spot is not None):
        return row.messages
    return [
        plain(spot) if spot is not None and spot in changed else item
        for spot, item in zip(spots, row.messages, strict=True)
    ]


def _redacted(using: str, rows: Iterable[Snapshot]) -> set[Spot]:
    """Of which messages that these have in a form of their own the form is not read any more."""
    wanted: dict[tuple[UUID | None, int], set[int]] = defaultdict(set)
    for row in rows:
        for item in row.messages if isinstance(row.messages, list) else ():
            if (spot := spot_of(row, item)) is not None:
                wanted[spot.agent, spot.branch].add(spot.position)
    found: set[Spot] = set()
    for (agent, branch), positions in wanted.items():
        messages = SessionMessage.objects.using(using).filter(agent=agent, branch=branch)
        messages = messages.filter(message_id__in=positions, redacted_at__isnull=False)
        there = messages.values_list("message_id", flat=True)
        found |= {Spot(agent, branch, position) for position in there}
    return found


def _place(row: Snapshot, column: str) -> Place:
    return place_of("snapshot", row, row.snapshot_id or "latest", column)
