"""Pages of a thread's messages, the newest first, as the client reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import Case, TextField, Value, When
from django.db.models.functions import Substr

from django_agent_sessions import blobs, masking
from django_agent_sessions.fields import CorruptPayload, ExactJSONField
from django_agent_sessions.functions import OctetLength
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.querysets import CONTENT_TEXT, MessageQuerySet
from django_agent_sessions.references import BlobRef, references, resolved
from django_agent_sessions.rest.serializers.fields import moment, shown
from django_agent_sessions.transcripts import displayable
from django_agent_sessions.windows import HEAD, content

from .finding import OPENING, by_id, messages_of, of_format, opening

PAGE_BYTES = 32 * 1024 * 1024
"""Bytes of payloads that a page holds. A client that is given less than a page asks no further,
so that what does not fit is shortened instead of being left out."""


def client_messages(agent: UUID | None, using: str) -> MessageQuerySet:
    """Gives what a client stored."""
    rows = SessionMessage.objects.using(using)
    return rows.none() if agent is None else messages_of(agent, using)


def first_of(rows: MessageQuerySet) -> tuple[UUID, str | None] | None:
    """Finds the oldest message."""
    start = Substr(CONTENT_TEXT, 1, OPENING, output_field=TextField())
    found = rows.annotate(start=start).values_list("pk", "start").first()
    return None if found is None else (found[0], opening(found[1]).get("parent_id"))


def page(
    rows: MessageQuerySet, *, limit: int, after: str | None, name: str | None
) -> list[dict[str, Any]] | None:
    """Reads a page."""
    wanted = rows
    if after is not None:
        found = by_id(rows, after)
        if not found:
            return None
        wanted = wanted.filter(message_id__lt=found[0].position)
    if name is not None:
        wanted = of_format(wanted, name)
    figures = list(
        wanted.annotate(size=OctetLength(CONTENT_TEXT))
        .order_by("-message_id")
        .values_list("pk", "message_id", "created_at", "updated_at", "size")[:limit]
    )
    payloads = _with_binaries(rows, _payloads(rows, figures))
    shown = [
        {
            **_said(*payloads.get(key, (None, "", "", "")), str(key), name),
            "height": position,
            "created_at": moment(created_at),
            "updated_at": moment(updated_at),
        }
        for key, position, created_at, updated_at, _ in figures
    ]
    _name_parents(rows, shown)
    return shown


def _name_parents(rows: MessageQuerySet, shown: Sequence[dict[str, Any]]) -> None:
    """Calls parents as they are called since they were redacted as a whole."""
    odd = {parent for one in shown if _may_be_renamed(parent := one["parent_id"])}
    now = {name: found.id for found in by_id(rows, *odd) for name in found.names}
    for one in shown:
        one["parent_id"] = now.get(one["parent_id"], one["parent_id"])


def _may_be_renamed(name: Any) -> bool:
    return isinstance(name, str) and masking.kept_id(name, chosen=True) != name


def _payloads(
    rows: MessageQuerySet, figures: Sequence[tuple[Any, ...]]
) -> dict[Any, tuple[Any, str, str, str]]:
    room, outside = PAGE_BYTES, []
    for key, *_, size in figures:
        if size > room:
            outside.append(key)
        else:
            room -= size
    large = When(pk__in=outside, then=Value(None))
    heads = When(pk__in=outside, then=Substr("text", 1, HEAD))
    starts = When(pk__in=outside, then=Substr(CONTENT_TEXT, 1, OPENING))
    found = (
        rows.order_by()
        .filter(pk__in=[key for key, *_ in figures])
        .annotate(
            payload=Case(large, default=content(), output_field=ExactJSONField(null=True)),
            head=Case(heads, default=Value(""), output_field=TextField()),
            start=Case(starts, default=Value(""), output_field=TextField()),
        )
        .values_list("pk", "payload", "head", "role", "start")
    )
    return {key: tuple(said) for key, *said in found}


def _with_binaries(
    rows: MessageQuerySet, said: dict[Any, tuple[Any, str, str, str]]
) -> dict[Any, tuple[Any, str, str, str]]:
    """Puts back what the client sent and is kept elsewhere, as far as a page has room for it."""
    chosen, room = [], PAGE_BYTES
    for key, (payload, *_) in said.items():
        size = sum(reference.size for _, reference in references(payload))
        if 0 < size <= room:
            room -= size
            chosen.append(key)
    if not chosen:
        return said
    # They are of one agent, and so of one session.
    session = rows.order_by().values_list("session_id", flat=True).get(pk=chosen[0])
    found = blobs.found_in(rows.db, session, [said[key][0] for key in chosen])
    return said | {
        key: (payload, *said[key][1:]) for key, payload in zip(chosen, found, strict=True)
    }


def _said(
    payload: Any, head: str, role: str, start: str, key: str, name: str | None
) -> dict[str, Any]:
    """Shows a message; what is too large, or corrupt, as far as it is known."""
    if isinstance(payload, CorruptPayload) or not isinstance(payload, dict):
        text = [{"type": "text", "text": displayable(head)}]
        # Whichever format it is: `parts` is that of the one, `content` that of the other.
        said = {"role": role or "assistant", "parts": text, "content": text}
        payload = {"format": "ai-sdk/v6", **opening(start), "content": said}
    inner = payload.get("content")
    return {
        "id": str(payload.get("id") or key),
        "parent_id": payload.get("parent_id"),
        "format": str(payload.get("format") or name or ""),
        "content": _sendable(inner) if isinstance(inner, dict) else {},
    }


def _sendable(content: dict[str, Any]) -> Any:
    """Gives the content exactly as it was sent; only what was imported may hold bytes.

    A binary that is missing, or that the page had no room for, is one of no bytes: where clients
    expect an address they stumble over anything else.
    """
    nothing = {
        reference.sha256: b""
        for _, reference in references(content)
        if reference.prefix is not None
    }
    content = resolved(content, nothing) if nothing else content
    return shown(content) if _holds_bytes(content) else content


def _holds_bytes(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_bytes, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_holds_bytes, value))
    return isinstance(value, bytes | BlobRef)
