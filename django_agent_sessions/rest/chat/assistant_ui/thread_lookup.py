"""Lookup of the client's messages by their ids.

A message's own key of a client is its ``external_id``. The id under which the client reads it is
the first key of the payload, so that a prefix of the payload's text identifies it. The database
compares the prefixes, unless payloads are sealed: then the payloads of the thread are opened and
compared here.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Q
from django.utils.crypto import salted_hmac

from django_agent_sessions.content import codec, exact_json, masking
from django_agent_sessions.content.dialects import ASSISTANT_UI
from django_agent_sessions.models import MAIN_BRANCH, SessionMessage
from django_agent_sessions.models.querysets import MessageQuerySet
from django_agent_sessions.models.stored_text import StoredText, payload_beginning
from django_agent_sessions.values.ids import MAX_ID_LENGTH

from . import CLIENT_AGENT_ID

# The longest id, with every character written as two escapes, and the text around it.
_HEAD_LENGTH = MAX_ID_LENGTH * 12 + 150
HEAD_LENGTH = 2 * _HEAD_LENGTH + 100
"""Characters at the start of a payload that contain everything before its content."""

_OPENED_AT_ONCE = 100
_ID_PREFIX = '{"id":'
_decode = json.JSONDecoder().raw_decode


@dataclass(frozen=True, slots=True)
class StoredThreadMessage:
    """A message of the client."""

    id: str
    """Its current id: redacting an id changes it."""

    names: frozenset[str]
    """The requested ids that matched it."""

    key: UUID
    position: int
    redacted_at: datetime | None
    agent: UUID
    has_digest: bool
    """Whether it has the requested digest: the same content under the same parent."""


def find_by_ids(rows: MessageQuerySet, *ids: str, digest: str = "") -> list[StoredThreadMessage]:
    """Return the messages with these ids, and those with this digest, oldest first."""
    ids_by_prefix = {prefix: name for name in ids for prefix in _prefixes(name)}
    condition = Q()
    for prefix in ids_by_prefix:
        condition |= Q(now__startswith=prefix) | Q(before__startswith=prefix)
    needle = f'"content_digest":"{digest}"' if digest else ""
    if needle:
        condition |= Q(now__contains=needle) | Q(before__contains=needle)
    if not condition:
        return []
    heads = _annotate_heads(rows)
    # What is sealed is opened one by one: a thread belongs to one user.
    found = heads.filter(condition) if codec.is_plain() else heads
    return [
        message
        for row in found.values_list(*_COLUMNS)
        # Some databases compare without case.
        if (message := _stored_message(row, ids_by_prefix, needle)) is not None
        and (message.names or message.has_digest)
    ]


def find_by_external_ids(rows: MessageQuerySet, *names: str) -> dict[str, StoredThreadMessage]:
    """Return the messages with these external ids."""
    keyed = rows.filter(external_id__in=names) if names else rows.none()
    found = {
        name: _stored_message(row, {}, "")
        for *row, name in _annotate_heads(keyed).values_list(*_COLUMNS, "external_id")
    }
    return {name: message for name, message in found.items() if message is not None}


def filter_format(rows: MessageQuerySet, name: str, *, newest: int) -> MessageQuerySet:
    """Return the messages of one format, whose name is ASCII; at least the newest ones."""
    headed: Any = rows.annotate(head=payload_beginning(HEAD_LENGTH))
    needle = f'"format":"{name}","content":'
    if codec.is_plain():
        plain: MessageQuerySet = headed.filter(head__contains=needle)
        return plain
    heads = headed.order_by("-message_id").values_list("pk", "head").iterator(_OPENED_AT_ONCE)
    keys = (key for key, head in heads if needle in head)
    return rows.filter(pk__in=list(itertools.islice(keys, newest)))


def content_digest(
    session: UUID, parent: str | None, name: str, content: dict[str, Any], *more: str
) -> str:
    """Return a keyed digest that recognizes a repeated message without revealing its content."""
    text = exact_json.dumps([str(session), parent, name, content, *more])
    return salted_hmac("agent_sessions.assistant_ui", text, algorithm="sha256").hexdigest()


def parse_head(text: str) -> dict[str, Any]:
    """Parse a payload up to its content, from its first ``HEAD_LENGTH`` characters."""
    fields: dict[str, Any] = {}
    at = 1
    try:
        while text.startswith('"', at):
            key, at = _decode(text, at)
            if key == "content":
                break
            fields[key], at = _decode(text, at + 1)
            at += 1
    except ValueError:
        # The payload is corrupt.
        return {}
    return fields


_COLUMNS = ("message_id", "pk", "redacted_at", "agent_id", "now", "before")


def _annotate_heads(rows: MessageQuerySet) -> MessageQuerySet:
    return rows.annotate(
        now=payload_beginning(_HEAD_LENGTH),
        # The original, because the client knows a message by its id from before a redaction.
        before=StoredText("message", length=_HEAD_LENGTH),
    )


def _prefixes(name: str) -> Iterable[str]:
    for candidate in (name, *masking.replacement_ids(name)):
        for ascii_only in {candidate.isascii(), True}:
            yield f"{_ID_PREFIX}{json.dumps(candidate, ensure_ascii=ascii_only)},"


def _stored_message(
    row: Sequence[Any], ids_by_prefix: dict[str, str], needle: str
) -> StoredThreadMessage | None:
    position, key, redacted_at, agent, now, before = row
    try:
        current = _decode(now, len(_ID_PREFIX))[0] if now.startswith(_ID_PREFIX) else None
    except ValueError:
        return None
    if not isinstance(current, str):
        return None
    names = {
        name
        for prefix, name in ids_by_prefix.items()
        if now.startswith(prefix) or before.startswith(prefix)
    }
    has_digest = bool(needle) and (needle in now or needle in before)
    return StoredThreadMessage(
        current, frozenset(names), key, position, redacted_at, agent, has_digest
    )


class Link(NamedTuple):
    """The place of a message in the thread."""

    id: str
    parent_id: str | None


def thread_links(rows: MessageQuerySet) -> dict[UUID, Link]:
    """Return the ids of messages and of their parents, by primary key; no corrupt ones."""
    heads = rows.annotate(start=payload_beginning(HEAD_LENGTH)).values_list("pk", "start")
    fields = {key: parse_head(start) for key, start in heads.iterator(_OPENED_AT_ONCE)}
    return {
        key: Link(head["id"], parent if isinstance(parent := head.get("parent_id"), str) else None)
        for key, head in fields.items()
        if isinstance(head.get("id"), str)
    }


def agent_messages(agent: UUID, using: str) -> MessageQuerySet:
    """Return the messages of an agent, oldest first."""
    return SessionMessage.objects.using(using).conversation(agent)


def thread_messages(session: UUID, using: str) -> MessageQuerySet:
    """Return the client's messages of a session, oldest first."""
    rows = SessionMessage.objects.using(using).filter(
        session=session,
        agent__agent_id=CLIENT_AGENT_ID,
        agent__dialect=ASSISTANT_UI,
        branch=MAIN_BRANCH,
    )
    return rows.order_by("message_id")
