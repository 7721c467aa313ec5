"""Copy messages to another branch or session, as their readers see them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.models.functions import Coalesce

from django_agent_sessions import blobs
from django_agent_sessions.content import codec, dialects, exact_json
from django_agent_sessions.content.blob_refs import BlobRef, references
from django_agent_sessions.db.db_errors import RetryError
from django_agent_sessions.exceptions import SessionConflictError
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.models.fields import decode_payload
from django_agent_sessions.models.functions import OctetLength
from django_agent_sessions.models.querysets import MessageQuerySet
from django_agent_sessions.models.stored_text import PAYLOAD_TEXT
from django_agent_sessions.sql import message_writes
from django_agent_sessions.values.ids import id_for_time
from django_agent_sessions.values.records import AgentRecord

from ._rows import sealed_payload

_PART = message_writes.MAX_ROWS
_PART_SIZE = 2 * 1024 * 1024

_NAMES = [field.attname for field in message_writes.ALL_FIELDS]
_COLUMNS = [name for name in _NAMES if name != "message"]


def copy_messages(using: str, messages: MessageQuerySet, target: AgentRecord) -> int:
    """Copy messages to the same positions of another agent or branch.

    The caller has a transaction open.
    """
    copied = 0
    with ExitStack() as attempts:
        for part in _parts(messages.using(using)):
            rows = [_row(source, target) for source in part]
            refs = {row["id"]: _references(row["payload_text"]) for row in rows}
            if any(refs.values()):
                _copy_binaries(using, part[0]["session_id"], target, refs, attempts)
            message_writes.insert(using, [_values(using, row) for row in rows])
            copied += len(rows)
    return copied


def _parts(messages: MessageQuerySet) -> Iterator[list[dict[str, Any]]]:
    """Read rows by keyset pagination, because a conversation may exceed the memory."""
    ordered = messages.order_by("message_id")
    # As text: the stored payload is copied exactly, and today's limits do not apply to it.
    rows = ordered.annotate(payload_text=PAYLOAD_TEXT).values(*_COLUMNS, "payload_text")
    sizes = ordered.values_list("message_id", OctetLength(PAYLOAD_TEXT))
    last = -1
    while batch := list(sizes.filter(message_id__gt=last)[:_PART]):
        for first, last in _spans(batch):
            part = list(rows.filter(message_id__gte=first, message_id__lte=last))
            if part:
                yield part


def _spans(sizes: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last position of messages that fit into the memory together."""
    first = last = sizes[0][0]
    room = _PART_SIZE
    for position, size in sizes:
        if size > room and position != first:
            yield first, last
            first, room = position, _PART_SIZE
        last, room = position, room - size
    yield first, last


def _row(source: Mapping[str, Any], target: AgentRecord) -> dict[str, Any]:
    key = id_for_time(source["created_at"], source["message_id"])
    payload = source["payload_text"]
    return {
        **source,
        "id": key,
        "session_id": target.session,
        "agent_id": target.id,
        "branch": target.branch,
        "source": source["source"] or source["id"],
        "message": sealed_payload(key, payload, target.session),
        "text": codec.neutral_text(source["text"] or _hidden_text(target.dialect, payload)),
        "revision": 0,
        "change": 0,
        "redaction_change": None,
    }


def _hidden_text(dialect: str, payload: str) -> str:
    """Return the text of a message whose column was emptied when the message was encrypted."""
    if codec.is_plain() or codec.hides_text():
        return ""
    return dialects.get(dialect).summary(decode_payload(payload)).text


def _values(using: str, row: Mapping[str, Any]) -> list[Any]:
    connection = connections[using]
    return [
        # Read as text.
        row[field.attname]
        if field.name == "message"
        else field.get_db_prep_save(row[field.attname], connection)
        for field in message_writes.ALL_FIELDS
    ]


def _references(payload_text: str) -> set[BlobRef]:
    """Return the references in a payload to binaries in a storage."""
    if not exact_json.has_blobs(payload_text):
        return set()
    return {reference for _, reference in references(decode_payload(payload_text))}


def _copy_binaries(
    using: str,
    session: UUID,
    target: AgentRecord,
    refs: Mapping[UUID, set[BlobRef]],
    attempts: ExitStack,
) -> None:
    """Store the binaries of copied messages; ``refs`` has the references of each."""
    binaries: dict[BlobRef, bytes] = {}
    if target.session != session:
        wanted = {ref.sha256: ref for found in refs.values() for ref in found}
        # By hash only: a binary that was referenced as text is also read as bytes.
        hashed = [BlobRef(ref.sha256, ref.size) for ref in wanted.values()]
        contents = blobs.existing_binaries(using, session, hashed)
        # A missing binary stays a reference.
        binaries = {
            ref: data
            for ref, data in zip(wanted.values(), contents, strict=True)
            if isinstance(data, bytes)
        }
    uses = {key: {ref.sha256 for ref in found} for key, found in refs.items()}
    uploads = blobs.Uploads(using, target.session, uses, binaries, known=True)
    attempts.enter_context(uploads.attempt())
    try:
        uploads.store()
    except RetryError:
        raise SessionConflictError(
            f"a binary of session {session} was deleted during the copy; try again"
        ) from None
    uploads.create_references()


def common_prefix_length(using: str, agent: AgentRecord, left: int, right: int) -> int:
    """Return how many messages two branches have in common at the beginning."""
    origin = Coalesce("source", "id")
    columns = [
        SessionMessage.objects.using(using)
        .conversation(agent.id, branch)
        .annotate(origin=origin)
        .values_list("message_id", "origin")
        for branch in (left, right)
    ]
    count = 0
    for mine, theirs in zip(*columns, strict=False):
        if mine != theirs:
            break
        count += 1
    return count
