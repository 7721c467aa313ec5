"""Finding what the client stored, by the client's own ids.

An id has no column: it stands first in the payload, so that the beginning of the text tells it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q, TextField
from django.db.models.functions import Substr
from django.utils.crypto import salted_hmac

from django_agent_sessions import masking, payloads
from django_agent_sessions.ids import MAX_ID_LENGTH
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.querysets import CONTENT_TEXT, MessageQuerySet

# An id of which every character is written as two escapes, and what stands around it.
_HEAD = MAX_ID_LENGTH * 12 + 150
OPENING = 2 * _HEAD + 100
"""Characters of a payload in which all that stands before the content is."""

_BEGINNING = '{"id":'
_decode = json.JSONDecoder().raw_decode


@dataclass(frozen=True, slots=True)
class Found:
    """A message that the client stored."""

    id: str
    """What it is called now: an id in which something was redacted has another."""

    names: frozenset[str]
    """What it was found by, of what was asked for."""

    key: UUID
    position: int
    redacted_at: datetime | None


def by_id(rows: MessageQuerySet, *ids: str) -> list[Found]:
    """Finds messages by their ids."""
    wanted = {prefix: name for name in ids for prefix in _prefixes(name)}
    if not wanted:
        return []
    places = Q()
    for prefix in wanted:
        places |= Q(now__startswith=prefix) | Q(before__startswith=prefix)
    return [
        found
        for row in _heads(rows).filter(places).values_list(*_COLUMNS)
        # Not every database tells upper from lower case here.
        if (found := _found(row, wanted)) is not None and found.names
    ]


def by_digest(rows: MessageQuerySet, digest: str) -> Found | None:
    """Finds the message that said the same under the same parent."""
    needle = f'"content_digest":"{digest}"'
    places = Q(now__contains=needle) | Q(before__contains=needle)
    for row in _heads(rows).filter(places).values_list(*_COLUMNS):
        if (found := _found(row, {})) is not None:
            return found
    return None


def of_format(rows: MessageQuerySet, name: str) -> MessageQuerySet:
    """Keeps the messages of one format."""
    head = Substr(CONTENT_TEXT, 1, OPENING, output_field=TextField())
    return rows.annotate(head=head).filter(head__contains=f'"format":"{name}","content":')


def digest_of(session: UUID, parent: str | None, name: str, content: dict[str, Any]) -> str:
    """Makes what tells a message that is sent again from a new one, and nothing of what it says."""
    said = payloads.dumps([str(session), parent, name, content])
    return salted_hmac("agent_sessions.assistant_ui", said, algorithm="sha256").hexdigest()


def opening(text: str) -> dict[str, Any]:
    """Reads how a payload begins, without what it says."""
    found: dict[str, Any] = {}
    at = 1
    try:
        while text.startswith('"', at):
            key, at = _decode(text, at)
            if key == "content":
                break
            found[key], at = _decode(text, at + 1)
            at += 1
    except ValueError:
        # It is corrupt.
        return {}
    return found


_COLUMNS = ("message_id", "pk", "redacted_at", "now", "before")


def _heads(rows: MessageQuerySet) -> MessageQuerySet:
    return rows.annotate(
        now=Substr(CONTENT_TEXT, 1, _HEAD, output_field=TextField()),
        # Under a redacted version that changed the id: the client knows it by the old one.
        before=Substr("message", 1, _HEAD, output_field=TextField()),
    )


def _prefixes(name: str) -> Iterable[str]:
    for one in (name, *masking.masked_ids(name)):
        for ascii_only in {one.isascii(), True}:
            yield f"{_BEGINNING}{json.dumps(one, ensure_ascii=ascii_only)},"


def _found(row: tuple[Any, ...], wanted: dict[str, str]) -> Found | None:
    position, key, redacted_at, now, before = row
    try:
        current = _decode(now, len(_BEGINNING))[0] if now.startswith(_BEGINNING) else None
    except ValueError:
        return None
    if not isinstance(current, str):
        return None
    names = {
        name
        for prefix, name in wanted.items()
        if now.startswith(prefix) or before.startswith(prefix)
    }
    return Found(current, frozenset(names), key, position, redacted_at)


def messages_of(agent: UUID, using: str) -> MessageQuerySet:
    """Gives the messages of an agent, the oldest first."""
    return SessionMessage.objects.using(using).conversation(agent)
