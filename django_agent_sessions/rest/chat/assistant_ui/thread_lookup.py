"""Lookup of the client's messages by their ids.

A message's own key of a client is its ``external_id``. The id under which the client reads it is
the first key of the payload, so that a prefix of the payload's text identifies it. The database
compares the prefixes, unless payloads are sealed: then the payloads of the thread are opened and
compared here.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Q
from django.utils.crypto import salted_hmac

from django_agent_sessions.content import codec, exact_json, masking
from django_agent_sessions.content.dialects import ASSISTANT_UI
from django_agent_sessions.models import MAIN_BRANCH, SessionMessage
from django_agent_sessions.models.querysets import MessageQuerySet
from django_agent_sessions.models.stored_text import payload_beginning
from django_agent_sessions.values.ids import MAX_ID_LENGTH

from . import CLIENT_AGENT_ID

# The longest id, with every character written as two escapes, and the text around it.
_HEAD_LENGTH = MAX_ID_LENGTH * 12 + 150
HEAD_LENGTH = 2 * _HEAD_LENGTH + 100
"""Characters at the start of a payload that contain everything before its content."""

_OPENED_AT_ONCE = 100
_ID_PREFIX = '{"id":'
_decode = json.JSONDecoder().raw_decode


def find_by_ids(rows: MessageQuerySet, *ids: str, digest: str = "") -> list[SessionMessage]:
    """Return the messages with these ids, and those with this digest, oldest first."""
    condition = Q()
    prefixes = tuple(prefix for name in ids for prefix in _prefixes(name))
    for prefix in prefixes:
        condition |= Q(head__startswith=prefix)
    if digest:
        condition |= Q(head__contains=_digest_field(digest))
    if not condition:
        return []
    heads = _annotate_heads(rows)
    # What is sealed is opened one by one: a thread belongs to one user.
    found = heads.filter(condition) if codec.is_plain() else heads
    return [
        message
        for message in found
        # Some databases compare without case.
        if _id_in(_head(message)) is not None
        and (_head(message).startswith(prefixes) or has_digest(message, digest))
    ]


def present_ids(rows: MessageQuerySet, *ids: str) -> dict[str, str]:
    """Return the present ids of the messages with these ids, by the latter."""
    prefixes = {name: tuple(_prefixes(name)) for name in ids}
    return {
        name: client_id(message)
        for message in find_by_ids(rows, *ids)
        for name, of_name in prefixes.items()
        if _head(message).startswith(of_name)
    }


def find_by_external_ids(rows: MessageQuerySet, *names: str) -> dict[str | None, SessionMessage]:
    """Return the messages with these external ids."""
    keyed = rows.filter(external_id__in=names) if names else rows.none()
    found = _annotate_heads(keyed)
    return {message.external_id: message for message in found if _id_in(_head(message)) is not None}


def client_id(message: SessionMessage) -> str:
    """Return the present id of a message that was found: redacting an id changes it."""
    return _id_in(_head(message)) or ""


def has_id(message: SessionMessage, name: str) -> bool:
    """Return whether a message that was found has this id, or had it before it was redacted."""
    return _head(message).startswith(tuple(_prefixes(name)))


def has_digest(message: SessionMessage, digest: str) -> bool:
    """Return whether a message that was found has this content under the same parent."""
    return bool(digest) and _digest_field(digest) in _head(message)


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


def _annotate_heads(rows: MessageQuerySet) -> MessageQuerySet:
    heads: MessageQuerySet = rows.annotate(head=payload_beginning(_HEAD_LENGTH))
    return heads.only("message_id", "redacted_at", "agent", "external_id")


def _head(message: SessionMessage) -> str:
    head: str = message.head  # type: ignore[attr-defined] # an annotation
    return head


def _digest_field(digest: str) -> str:
    return f'"content_digest":"{digest}"'


def _id_in(head: str) -> str | None:
    """Return the id at the beginning of a payload; None if it is corrupt."""
    try:
        found = _decode(head, len(_ID_PREFIX))[0] if head.startswith(_ID_PREFIX) else None
    except ValueError:
        return None
    return found if isinstance(found, str) else None


def _prefixes(name: str) -> Iterable[str]:
    for candidate in (name, *masking.replacement_ids(name)):
        for ascii_only in {candidate.isascii(), True}:
            yield f"{_ID_PREFIX}{json.dumps(candidate, ensure_ascii=ascii_only)},"


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
