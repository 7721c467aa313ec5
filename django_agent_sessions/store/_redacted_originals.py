"""Recognize the originals of redacted messages, which a caller may still have in memory."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Q
from django.utils.crypto import salted_hmac

from django_agent_sessions.content import codec, dialects, masking
from django_agent_sessions.models import RedactedOriginal, Session, SessionMessage
from django_agent_sessions.models.fields import CorruptPayload, decode_payload
from django_agent_sessions.models.stored_text import PAYLOAD_TEXT
from django_agent_sessions.values.ids import new_id
from django_agent_sessions.values.records import AgentRecord

_CHUNK = 200
_SHORTEST = 12
# Assigned by a provider, or left out by an SDK that sends a message again.
_VOLATILE = ("id", "status")


def digest_of(payload: Any) -> str:
    """Return a keyed digest of a message, which reveals nothing without the secret key."""
    return _digest(_text_of(payload), settings.SECRET_KEY)


def digests_of(payload: Any) -> list[str]:
    """Return the digests of a message with the secret key and its predecessors."""
    text = _text_of(payload)
    return [_digest(text, key) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)]


def _digest(text: str, key: Any) -> str:
    name = "agent_sessions.original"
    return salted_hmac(name, text, secret=key, algorithm="sha256").hexdigest()


def _text_of(payload: Any) -> str:
    if isinstance(payload, dict):
        payload = {name: value for name, value in payload.items() if name not in _VOLATILE}
        if payload.get("type") == "message":
            del payload["type"]
    return json.dumps(payload, sort_keys=True, default=repr)


def record_originals(using: str, session: UUID, keys: Iterable[UUID]) -> None:
    """Record what messages are before they are redacted."""
    for chunk in _chunks(keys):
        rows = SessionMessage.objects.using(using).filter(pk__in=chunk).order_by()
        # Of an encrypted message, the text is read from the payload.
        text_source = "text" if codec.is_plain() else "agent__dialect"
        originals = [
            RedactedOriginal(id=new_id(), session=session, digest=digest_of(payload), message=key)
            for key, source, stored in rows.values_list("pk", text_source, PAYLOAD_TEXT)
            if _is_unmistakable(payload := decode_payload(stored), source)
        ]
        # Copies on other branches have the same digest.
        RedactedOriginal.objects.using(using).bulk_create(originals, ignore_conflicts=True)


def _is_unmistakable(payload: Any, source: str) -> bool:
    """Return whether an equal message can only be the same one: "yes" is said more than once."""
    if isinstance(payload, CorruptPayload):
        return False
    is_call = isinstance(payload, dict) and "call_id" in payload
    text = source if codec.is_plain() else dialects.get(source).summary(payload).text
    return is_call or len(text.strip()) >= _SHORTEST


def has_originals(using: str, agent: AgentRecord, ancestors: Collection[UUID]) -> bool:
    """Return whether originals of redacted messages are recognized in the session."""
    sessions = {agent.session, *ancestors}
    return RedactedOriginal.objects.using(using).filter(session__in=sessions).exists()


def without_originals(
    using: str, agent: AgentRecord, messages: Sequence[Any], ancestors: Collection[UUID]
) -> list[Any]:
    """Return messages with those that were redacted in the session in their redacted version.

    Those that were redacted in one of its ancestors as well.
    """
    sessions = {agent.session, *ancestors}
    result = list(messages)
    digests = [digests_of(message) for message in result]
    found: dict[str, UUID] = {}
    for chunk in _chunks(chain(*digests)):
        rows = RedactedOriginal.objects.using(using).filter(session__in=sessions)
        columns = rows.filter(digest__in=chunk).values_list("digest", "message", "session")
        # Those of the session itself last, so that they take precedence.
        for digest, message, _ in sorted(columns, key=lambda row: row[2] == agent.session):
            found[digest] = message
    if not found:
        return result
    same_owner = Q()
    if ancestors:
        # An ancestor may have another owner today.
        own = Session.objects.using(using).filter(pk=agent.session)
        same_owner = Q(session__owner=own.values_list("owner", flat=True).first())
    redacted: dict[UUID, Any] = {}
    for chunk in _chunks(found.values()):
        messages_found = SessionMessage.objects.using(using).filter(pk__in=chunk).order_by()
        messages_found = messages_found.filter(same_owner)
        for key, text in messages_found.values_list("pk", PAYLOAD_TEXT):
            redacted[key] = decode_payload(text)
    for index, (digest, *older) in enumerate(digests):
        if key := next((found[one] for one in (digest, *older) if one in found), None):
            version = redacted.get(key)
            # The message itself was deleted since, or is another owner's.
            lost = version is None or isinstance(version, CorruptPayload)
            replaced = masking.redact_message(agent.dialect, result[index]) if lost else version
            result[index] = replaced
    return result


def are_originals(using: str, messages: Sequence[Any]) -> list[bool]:
    """Return which messages equal one that was redacted in any session, also in a deleted one."""
    digests = [digests_of(message) for message in messages]
    found: set[str] = set()
    for chunk in _chunks(chain(*digests)):
        rows = RedactedOriginal.objects.using(using).filter(digest__in=chunk)
        found.update(rows.values_list("digest", flat=True))
    return [not found.isdisjoint(own) for own in digests]


def _chunks(items: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, _CHUNK)):
        yield chunk
