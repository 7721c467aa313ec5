"""Copies of messages: of what people see of them, with keys of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.models import ExpressionWrapper, F, TextField
from django.db.models.functions import Coalesce

from django_agent_sessions import blobs, payloads, statements
from django_agent_sessions.exceptions import SessionConflictError
from django_agent_sessions.fields import CorruptPayload, read
from django_agent_sessions.ids import id_at
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.querysets import CONTENT_TEXT, MessageQuerySet
from django_agent_sessions.records import AgentRecord
from django_agent_sessions.references import BlobRef, references
from django_agent_sessions.transient import TryAgainError

_PART = statements.MOST_ROWS
_PART_SIZE = 2 * 1024 * 1024

_NAMES = [field.attname for field in statements.PLACED_FIELDS]
# As text: what was stored is copied to the letter, whatever today's limits are.
_TEXTS = {
    "shown": CONTENT_TEXT,
    "redacted_text": ExpressionWrapper(F("redact_message"), output_field=TextField()),
}
_COLUMNS = [name for name in _NAMES if name not in ("message", "redact_message")]


@dataclass(frozen=True)
class _Copied:
    """A copy that refers to binaries."""

    id: UUID
    binaries: Mapping[BlobRef, bytes]
    hashes: set[str]


def copy(using: str, messages: MessageQuerySet, target: AgentRecord) -> int:
    """Copies messages, at their positions, in the caller's transaction.

    An original that is hidden behind its redaction is not copied.
    """
    copied = 0
    with ExitStack() as attempts:
        for part in _parts(messages.using(using)):
            rows = [_row(found, target) for found in part]
            holders = [
                holder
                for found, row in zip(part, rows, strict=True)
                if (holder := _holder(found, row["id"])) is not None
            ]
            if holders:
                _copy_binaries(using, part[0]["session_id"], target, holders, attempts)
            statements.insert(using, [_values(using, row) for row in rows])
            copied += len(rows)
    return copied


def _parts(messages: MessageQuerySet) -> Iterator[list[dict[str, Any]]]:
    """Reads rows by position and in parts: a conversation may be larger than the memory."""
    rows = messages.order_by("message_id").annotate(**_TEXTS).values(*_COLUMNS, *_TEXTS)
    last = -1
    while found := list(rows.filter(message_id__gt=last)[:_PART]):
        last = found[-1]["message_id"]
        while found:
            size = count = 0
            for row in found:
                size += len(row["shown"])
                if count and size > _PART_SIZE:
                    break
                count += 1
            yield found[:count]
            found = found[count:]


def _row(found: Mapping[str, Any], target: AgentRecord) -> dict[str, Any]:
    return {
        **found,
        "id": id_at(found["created_at"], found["message_id"]),
        "session_id": target.session,
        "agent_id": target.id,
        "branch": target.branch,
        "source": found["source"] or found["id"],
        "message": found["shown"],
        "redact_message": found["shown"] if found["redacted_text"] is not None else None,
        "revision": 0,
    }


def _values(using: str, row: Mapping[str, Any]) -> list[Any]:
    connection = connections[using]
    return [
        # These two are text already.
        row[field.attname]
        if field.name in ("message", "redact_message")
        else field.get_db_prep_save(row[field.attname], connection)
        for field in statements.PLACED_FIELDS
    ]


def _holder(found: Mapping[str, Any], key: UUID) -> _Copied | None:
    if not payloads.has_blobs(found["shown"]):
        return None
    payload = read(found["shown"])
    if isinstance(payload, CorruptPayload):
        return None
    refs = {reference for _, reference in references(payload)}
    return _Copied(key, dict.fromkeys(refs, b""), {reference.sha256 for reference in refs})


def _copy_binaries(
    using: str, session: UUID, target: AgentRecord, holders: list[_Copied], attempts: ExitStack
) -> None:
    if target.session != session:
        # By hash alone: what a text holds is read as bytes, too.
        wanted = {ref.sha256: BlobRef(ref.sha256, ref.size) for h in holders for ref in h.binaries}
        found = blobs.found_in(using, session, list(wanted.values()))
        # What is missing stays a reference to something that is missing.
        there = {
            sha256: data
            for sha256, data in zip(wanted, found, strict=True)
            if isinstance(data, bytes)
        }
        holders = [
            _Copied(
                holder.id,
                {ref: there[ref.sha256] for ref in holder.binaries if ref.sha256 in there},
                holder.hashes,
            )
            for holder in holders
        ]
    else:
        holders = [_Copied(holder.id, {}, holder.hashes) for holder in holders]
    uploads = blobs.Uploads(using, target.session, holders, known=True)
    attempts.enter_context(uploads.attempt())
    try:
        uploads.store()
    except TryAgainError:
        raise SessionConflictError(
            f"a binary of session {session} was taken away meanwhile"
        ) from None
    uploads.refer()


def common(using: str, agent: AgentRecord, left: int, right: int) -> int:
    """Counts how many messages two branches begin with that are the same."""
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
