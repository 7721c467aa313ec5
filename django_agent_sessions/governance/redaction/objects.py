"""Redaction in the objects that an SDK's storage keeps for a session."""

from __future__ import annotations

import json
from typing import Any

from django.db.models import F
from django.utils import timezone

from django_agent_sessions.models import Session, StoredObject, StoredPart
from django_agent_sessions.store.snapshots import PART_SIZE

from .findings import Findings, PayloadChange, place_of

_BATCH = 100


class _DuplicateKeyError(ValueError):
    """A JSON object repeats a key, so that parsing it would lose a value."""


def search_objects(using: str, session: Session, findings: Findings) -> None:
    """Search the stored objects of a session one by one.

    JSON stays JSON. In other texts and in bytes the matches are masked in place.
    """
    rows = StoredObject.objects.using(using).filter(session=session).order_by("pk")
    batch = list(rows[:_BATCH])
    while batch:
        for row in batch:
            findings.keep_id(row.key, place_of("object", row, row.key, "key"))
            pieces = StoredPart.objects.using(using).filter(stored=row).order_by("number")
            data = b"".join(bytes(piece) for piece in pieces.values_list("data", flat=True))
            changed = _mask(data, row, findings)
            if changed is not data:
                findings.changes.append(PayloadChange(row, {}, contents=changed))
        batch = list(rows.filter(pk__gt=batch[-1].pk)[:_BATCH])


def write_object(using: str, change: PayloadChange) -> bool:
    """Overwrite the bytes of an object; return whether its revision was unchanged."""
    row, data = change.row, change.contents
    assert isinstance(row, StoredObject)  # noqa: S101 - set by the search
    assert data is not None  # noqa: S101 - set by the search
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


def _mask(data: bytes, row: StoredObject, findings: Findings) -> bytes:
    place = place_of("object", row, row.key, "data")
    try:
        text = data.decode()
        tree = json.loads(text, object_pairs_hook=_unique_pairs)
    except (ValueError, RecursionError):
        # Masked as text, or as bytes of the same length.
        masked: bytes = findings.mask(data, place)
        return masked
    if not isinstance(tree, dict | list):
        masked = findings.mask(data, place)
        return masked
    # The format is unknown, so that all keys and values are content.
    changed = findings.mask(tree, place, free=True)
    if changed is tree:
        return data
    try:
        return json.dumps(changed, ensure_ascii=text.isascii()).encode()
    except UnicodeEncodeError:
        # A lone surrogate, which JSON can only express as an escape.
        return json.dumps(changed).encode()


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _DuplicateKeyError
    return result
