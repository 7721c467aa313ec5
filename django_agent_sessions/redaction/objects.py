"""Looking for what to redact in what an SDK's storage keeps beside a session's messages."""

from __future__ import annotations

import json
from typing import Any

from django.db.models import F
from django.utils import timezone

from django_agent_sessions.models import Session, StoredObject, StoredPart
from django_agent_sessions.store.objects import PART_SIZE

from .findings import Change, Findings, place_of

_PART = 100


class _NoTreeError(ValueError):
    """It is JSON of which reading loses something."""


def look_at_objects(using: str, session: Session, findings: Findings) -> None:
    """Looks at the stored objects of a session, one after the other.

    JSON stays JSON. Of other texts and of bytes, what is found is masked where it stands.
    """
    rows = StoredObject.objects.using(using).filter(session=session).order_by("pk")
    part = list(rows[:_PART])
    while part:
        for row in part:
            findings.keep_id(row.key, place_of("object", row, row.key, "key"))
            pieces = StoredPart.objects.using(using).filter(stored=row).order_by("number")
            data = b"".join(bytes(piece) for piece in pieces.values_list("data", flat=True))
            changed = _masked(data, row, findings)
            if changed is not data:
                findings.changes.append(Change(row, {}, contents=changed))
        part = list(rows.filter(pk__gt=part[-1].pk)[:_PART])


def write_object(using: str, change: Change) -> bool:
    """Overwrites the bytes of an object; in the transaction, with the session's row locked."""
    row, data = change.row, change.contents
    assert isinstance(row, StoredObject)  # noqa: S101 - made below
    assert data is not None  # noqa: S101 - made below
    objects = StoredObject.objects.using(using).filter(pk=row.pk, revision=row.revision)
    columns = {"size": len(data), "revision": F("revision") + 1, "updated_at": timezone.now()}
    if not objects.update(**columns):
        return False
    parts = StoredPart.objects.using(using)
    parts.filter(stored=row.pk).delete()
    for number, first in enumerate(range(0, max(len(data), 1), PART_SIZE)):
        piece = data[first : first + PART_SIZE]
        StoredPart(stored_id=row.pk, number=number, data=piece).save(using=using, force_insert=True)
    return True


def _masked(data: bytes, row: StoredObject, findings: Findings) -> bytes:
    place = place_of("object", row, row.key, "data")
    try:
        text = data.decode()
        tree = json.loads(text, object_pairs_hook=_pairs)
    except (ValueError, RecursionError):
        # As a text, or as bytes of the same length.
        found: bytes = findings.mask(data, place)
        return found
    if not isinstance(tree, dict | list):
        found = findings.mask(data, place)
        return found
    # It is of no form that is known: a tool's result, whatever its keys are called.
    changed = findings.mask(tree, place, free=True)
    if changed is tree:
        return data
    try:
        return json.dumps(changed, ensure_ascii=text.isascii()).encode()
    except UnicodeEncodeError:
        # A lone surrogate, which only an escape can write.
        return json.dumps(changed).encode()


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _NoTreeError
    return found
