"""The bytes of stored objects, in parts that every database accepts in a statement."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from django.db.models import QuerySet

from django_agent_sessions.content import codec
from django_agent_sessions.content.codec import Holder, Owned
from django_agent_sessions.exceptions import PayloadError
from django_agent_sessions.models import StoredObject, StoredPart
from django_agent_sessions.values.ids import new_id

PART_SIZE = 1024 * 1024
"""Maximum bytes of one part."""

COLUMN = f"{StoredPart._meta.db_table}.data"


def read_bytes(parts: QuerySet[StoredPart]) -> bytes | None:
    """Return the bytes of one object; None if it has no parts."""
    rows = list(parts.order_by("number").values_list("pk", "data"))
    try:
        data = [codec.open_bytes(key, COLUMN, bytes(part)) for key, part in rows]
    except ValueError:
        raise PayloadError(f"part of a stored object {rows[0][0]} cannot be opened") from None
    return b"".join(data) if rows else None


def object_pieces(using: str, stored: UUID) -> Iterator[bytes]:
    """Yield the bytes of an object, one part at a time."""
    parts = StoredPart.objects.using(using).filter(stored=stored)
    for number in list(parts.order_by("number").values_list("number", flat=True)):
        yield read_bytes(parts.filter(number=number)) or b""


def write_bytes(using: str, stored: UUID, data: bytes) -> None:
    """Replace the bytes of an object, in the caller's transaction."""
    StoredPart.objects.using(using).filter(stored=stored).delete()
    holder = holder_of_object(using, stored)
    for number, first in enumerate(range(0, max(len(data), 1), PART_SIZE)):
        key = new_id()
        part = codec.seal_bytes(key, COLUMN, data[first : first + PART_SIZE], holder)
        row = StoredPart(id=key, stored_id=stored, number=number, data=part)
        row.save(using=using, force_insert=True)


def holder_of_object(using: str, stored: UUID) -> Holder:
    """Return whose an object is."""
    if codec.is_plain():
        return stored
    rows = StoredObject.objects.using(using).filter(pk=stored)
    row = rows.get()
    return row.session_id or Owned(row.owner_id)
