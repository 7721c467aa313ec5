"""Pages of a thread's messages, newest first, as the client reads them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import Case, TextField, Value, When
from django.db.models.functions import Substr

from django_agent_sessions import blobs, conf
from django_agent_sessions.content import codec, dialects, masking
from django_agent_sessions.content.blob_refs import BlobRef, references, resolve
from django_agent_sessions.content.dialects import ASSISTANT_UI, displayable
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.models.fields import CorruptPayload, ExactJSONField
from django_agent_sessions.models.functions import OctetLength, TypedText
from django_agent_sessions.models.querysets import MessageQuerySet
from django_agent_sessions.models.stored_text import (
    OpenedTextField,
    payload_beginning,
    stored_payload,
)
from django_agent_sessions.queries.message_pages import TEXT_BEGINNING_LENGTH
from django_agent_sessions.rest.chat.ai_sdk.ui_messages import UIMessage, page_of
from django_agent_sessions.rest.converters import parse_uuid
from django_agent_sessions.rest.serializers.fields import displayable_json, format_datetime

from .thread_lookup import (
    HEAD_LENGTH,
    agent_messages,
    filter_format,
    find_by_ids,
    parse_head,
    present_ids,
)

SERVER_FORMAT = "ai-sdk/v6"
"""The format of the server's messages; requests for any other format get none."""

_ROWS = 200


def client_messages(agent: UUID | None, using: str) -> MessageQuerySet:
    """Return the client's messages, oldest first; none if it has no agent yet."""
    rows = SessionMessage.objects.using(using)
    return rows.none() if agent is None else agent_messages(agent, using)


def oldest_message(rows: MessageQuerySet) -> tuple[UUID, str | None] | None:
    """Return the key and the parent's id of the oldest message."""
    start = payload_beginning(HEAD_LENGTH)
    first = rows.annotate(start=start).values_list("pk", "start").first()
    return None if first is None else (first[0], parse_head(first[1]).get("parent_id"))


def message_page(
    rows: MessageQuerySet, *, limit: int, after: str | None, name: str | None
) -> list[dict[str, Any]] | None:
    """Return a page of messages, newest first; ``None`` if there is no message ``after``.

    ``name`` limits the page to messages of one format.
    """
    page_rows = rows
    if after is not None:
        last = find_by_ids(rows, after)
        if not last:
            return None
        page_rows = page_rows.filter(message_id__lt=last[0].message_id)
    if name is not None:
        page_rows = filter_format(page_rows, name, newest=limit)
    figures = list(
        page_rows.annotate(size=OctetLength("message"))
        .order_by("-message_id")
        .values_list("pk", "message_id", "created_at", "updated_at", "external_id", "size")[:limit]
    )
    payloads = _with_binaries(rows, _payloads(rows, figures))
    messages = [
        {
            **_represent(*payloads.get(key, (None, "", "", "")), str(key), name),
            "height": position,
            "created_at": format_datetime(created_at),
            "updated_at": format_datetime(updated_at),
            **({"external_id": external_id} if external_id else {}),
        }
        for key, position, created_at, updated_at, external_id, _ in figures
    ]
    _update_parents(rows, messages)
    return messages


def _update_parents(rows: MessageQuerySet, messages: Sequence[dict[str, Any]]) -> None:
    """Replace the ids of parents whose id was changed by a redaction."""
    old_ids = {parent for message in messages if _may_be_renamed(parent := message["parent_id"])}
    new_ids = present_ids(rows, *old_ids)
    for message in messages:
        message["parent_id"] = new_ids.get(message["parent_id"], message["parent_id"])


def _may_be_renamed(name: Any) -> bool:
    return isinstance(name, str) and masking.safe_id(name, chosen=True) != name


def _payloads(
    rows: MessageQuerySet, figures: Sequence[tuple[Any, ...]]
) -> dict[Any, tuple[Any, str, str, str]]:
    # What does not fit is shortened, because the client takes a short page as the last one.
    room, too_large = conf.get_settings().MAX_ANSWER_BYTES, []
    for key, *_, size in figures:
        if size > room:
            too_large.append(key)
        else:
            room -= size
    large = When(pk__in=too_large, then=Value(None))
    heads = When(pk__in=too_large, then=Substr("text", 1, TEXT_BEGINNING_LENGTH))
    starts = When(pk__in=too_large, then=payload_beginning(HEAD_LENGTH))
    values = (
        rows.order_by()
        .filter(pk__in=[key for key, *_ in figures])
        .annotate(
            payload=Case(large, default=stored_payload(), output_field=ExactJSONField(null=True)),
            head=Case(heads, default=TypedText(""), output_field=TextField()),
            start=Case(starts, default=TypedText(""), output_field=OpenedTextField(HEAD_LENGTH)),
        )
        .values_list("pk", "payload", "head", "role", "start")
    )
    found = {key: tuple(columns) for key, *columns in values}
    if not codec.is_plain():
        for key in too_large:
            payload, head, role, start = found[key]
            found[key] = payload, head or _hidden_head(rows, key), role, start
    return found


def _hidden_head(rows: MessageQuerySet, key: Any) -> str:
    payload = rows.order_by().filter(pk=key).values_list(stored_payload(), flat=True).first()
    return dialects.get(ASSISTANT_UI).summary(payload).text[:TEXT_BEGINNING_LENGTH]


def _with_binaries(
    rows: MessageQuerySet, values: dict[Any, tuple[Any, str, str, str]]
) -> dict[Any, tuple[Any, str, str, str]]:
    """Restore the client's binaries that are stored as blobs, as far as they fit on a page."""
    keys, room = [], conf.get_settings().MAX_ANSWER_BYTES
    for key, (payload, *_) in values.items():
        size = sum(reference.size for _, reference in references(payload))
        if 0 < size <= room:
            room -= size
            keys.append(key)
    if not keys:
        return values
    # All messages are of one agent, and therefore of one session.
    session = rows.order_by().values_list("session_id", flat=True).get(pk=keys[0])
    payloads = blobs.existing_binaries(rows.db, session, [values[key][0] for key in keys])
    return values | {
        key: (payload, *values[key][1:]) for key, payload in zip(keys, payloads, strict=True)
    }


def _represent(
    payload: Any, head: str, role: str, start: str, key: str, name: str | None
) -> dict[str, Any]:
    """Represent a message; of one that is too large or corrupt, only what is known."""
    if isinstance(payload, CorruptPayload) or not isinstance(payload, dict):
        text = [{"type": "text", "text": displayable(head)}]
        # For both formats: one reads `parts`, the other `content`.
        message = {"role": role or "assistant", "parts": text, "content": text}
        payload = {"format": "ai-sdk/v6", **parse_head(start), "content": message}
    inner = payload.get("content")
    return {
        "id": str(payload.get("id") or key),
        "parent_id": payload.get("parent_id"),
        "format": str(payload.get("format") or name or ""),
        "content": _content(inner) if isinstance(inner, dict) else {},
    }


def _content(content: dict[str, Any]) -> Any:
    """Return the content exactly as it was sent; only imported content may contain bytes.

    A binary that is missing or does not fit on the page becomes an empty one, because clients fail
    if there is anything but a URL.
    """
    empty_blobs = {
        reference.sha256: b""
        for _, reference in references(content)
        if reference.prefix is not None
    }
    content = resolve(content, empty_blobs) if empty_blobs else content
    return displayable_json(content) if _holds_bytes(content) else content


def _holds_bytes(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_bytes, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_holds_bytes, value))
    return isinstance(value, bytes | BlobRef)


def find_server_message(session: Session, name: str, using: str) -> UUID | None:
    """Return the key of a message that the client did not write, or ``None``."""
    key = parse_uuid(name)
    if key is None:
        return None
    rows = SessionMessage.objects.using(using).filter(session=session, pk=key)
    return key if rows.exclude(agent__dialect__in=dialects.client_written()).exists() else None


def server_page(
    session: Session, *, limit: int, before: UUID | None = None, last: UUID | None = None
) -> list[dict[str, Any]]:
    """Return up to ``limit`` of the messages before the client's first one, newest first.

    ``before`` is the key of the message after the page, ``last`` of the last message to include.
    """
    messages: list[UIMessage] = []
    room = conf.get_settings().MAX_ANSWER_BYTES
    # One more than requested, which is the parent of the oldest: the client treats a short page as
    # the last one, and a message without a parent as the first.
    while len(messages) <= limit:
        page = page_of(session, before=before, limit=_ROWS)
        earlier = page.messages
        if last is not None:
            earlier = [message for message in earlier if UUID(message["id"]) <= last]
        messages, before = [*earlier, *messages], page.before
        room -= len(json.dumps(earlier))
        if before is None or room < 0:
            break
    parents = [None, *(message["id"] for message in messages)]
    page_messages = [
        _client_message(message, parent) for message, parent in zip(messages, parents, strict=False)
    ]
    return page_messages[::-1][:limit]


def _client_message(message: UIMessage, parent: str | None) -> dict[str, Any]:
    created_at = message["metadata"]["createdAt"]
    return {
        "id": message["id"],
        "parent_id": parent,
        "height": 0,
        "created_at": created_at,
        "updated_at": created_at,
        "format": SERVER_FORMAT,
        "content": {key: value for key, value in message.items() if key != "id"},
    }
