"""Messages in responses: parts that are the same for all SDKs, and the URLs of their media."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any
from urllib.parse import quote
from uuid import UUID

from django.urls import NoReverseMatch, reverse
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from django_agent_sessions.content import dialects, exact_json
from django_agent_sessions.content.dialects import (
    Dialect,
    Part,
    PartKind,
    TranscriptBlock,
    displayable,
)
from django_agent_sessions.content.paths import Path
from django_agent_sessions.exceptions import PayloadError
from django_agent_sessions.models import Session, SessionAgent
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.queries.message_pages import MessagePreview
from django_agent_sessions.rest.access import SCOPE, SCOPE_ALL

from .fields import (
    DisplayableField,
    PathKeyField,
    UTCDateTimeField,
    displayable_json,
)

_WEB = ("http://", "https://")
_MEDIA = (PartKind.IMAGE, PartKind.DOCUMENT)
_ANY_MESSAGE = UUID(int=0)


_Table = list[tuple[str, Callable[[Any], Any], Callable[[Any], Any]]]
"""For each field of a response its name, its getter, and the conversion of its value."""


@dataclass(frozen=True, slots=True)
class MessageContext:
    """The context in which a session's messages are represented.

    ``agents`` holds displayable agent ids and dialects by primary key. ``media_url`` has
    ``{message}`` in place of the message's id, and is empty if media are not served. ``raw`` adds
    the stored payload. Without ``authors``, the keys of users are left out.
    """

    session: UUID
    agents: Mapping[UUID, tuple[str, Dialect]]
    media_url: str = ""
    raw: bool = False
    authors: bool = True

    @classmethod
    def of(
        cls,
        session: Session,
        using: str,
        *,
        media_url: str = "",
        raw: bool = False,
        authors: bool = True,
    ) -> MessageContext:
        """Read the agents of a session."""
        return cls(session.pk, read_agents([session.pk], using), media_url, raw, authors)

    def agent_of(self, row: MessagePreview) -> tuple[str, Dialect]:
        """Return the id and the dialect of a message's agent, which may have been added since."""
        return self.agents.get(row.agent_id) or ("", dialects.get(""))


def read_agents(sessions: Collection[UUID], using: str) -> dict[UUID, tuple[str, Dialect]]:
    """Return the displayable ids and dialects of sessions' agents, by their primary keys."""
    rows = SessionAgent.objects.using(using).filter(session__in=sessions)
    values = rows.values_list("pk", "agent_id", "dialect")
    return {key: (displayable(name), dialects.get(dialect)) for key, name, dialect in values}


# A reference by name, because recursion through a serializer that contains itself never ends.
@extend_schema_field({"type": "array", "items": {"$ref": "#/components/schemas/Part"}})
class _InnerPartsField(serializers.ListField):
    """Parts of a part."""


class _DataField(serializers.JSONField):
    def to_representation(self, value: Any) -> Any:
        return displayable_json(value)


class PartSerializer(serializers.Serializer[Any]):
    """A part of a message: a text, an image, a tool call ..."""

    kind = serializers.ChoiceField(choices=[kind.value for kind in PartKind])
    path = serializers.ListField(
        child=PathKeyField(), help_text="Its path in the payload, for redaction and media."
    )
    text = DisplayableField()
    name = DisplayableField(help_text="The name of the tool or document.")
    call_id = DisplayableField(help_text="Pairs a tool call with its result.")
    status = serializers.ChoiceField(choices=["", "success", "error"])
    data = _DataField(  # type: ignore[assignment] # a field, not the property
        help_text="The arguments of a call or the JSON of a result; or null."
    )
    media_type = DisplayableField()
    size = serializers.IntegerField(
        allow_null=True, help_text="The size in bytes of a binary in the message."
    )
    url = serializers.CharField(help_text="The URL of an image or document; empty if none.")
    parts = _InnerPartsField(help_text="The contents of a tool result.")


class MessageSerializer(serializers.Serializer[MessagePreview]):
    """A message; redacted content is replaced by its mask."""

    id = serializers.UUIDField()
    session = serializers.UUIDField()
    agent = serializers.CharField(help_text="The id of the agent.")
    branch = serializers.IntegerField(
        help_text="The branch of the agent's conversation; 0 is the main branch."
    )
    position = serializers.IntegerField(
        source="message_id", help_text="The position on that branch, from 0."
    )
    role = serializers.CharField(help_text="user, assistant, system, tool, or empty.")
    author = serializers.CharField(
        help_text="The key of the user who wrote it, if that is not the session's owner."
    )
    revision = serializers.IntegerField(help_text="How often the message was changed.")
    run_id = serializers.UUIDField(
        allow_null=True, help_text="The same for all messages of one invocation of an agent."
    )
    created_at = UTCDateTimeField()
    updated_at = UTCDateTimeField()
    redacted_at = UTCDateTimeField(allow_null=True, help_text="When the message was redacted.")
    input_tokens = serializers.IntegerField(allow_null=True)
    output_tokens = serializers.IntegerField(allow_null=True)
    cache_read_tokens = serializers.IntegerField(
        allow_null=True, help_text="Those of the input tokens that were read from a prompt cache."
    )
    cache_write_tokens = serializers.IntegerField(
        allow_null=True, help_text="Those of the input tokens that were written to it."
    )
    latency_ms = serializers.IntegerField(allow_null=True)
    size = serializers.IntegerField(help_text="The size of the payload in bytes.")
    truncated = serializers.BooleanField(
        help_text="Whether the message is too large for this response, which then has only the "
        "start of its text."
    )
    corrupt = serializers.BooleanField(help_text="Whether the stored payload is unreadable.")
    parts = PartSerializer(many=True)
    raw = serializers.JSONField(required=False, help_text="The payload, with `raw=true`.")

    def to_representation(self, instance: MessagePreview) -> dict[str, Any]:
        """Represent a filled row; the context has the ``reading``."""
        return represent_message(instance, self.context["reading"])


def represent_message(row: MessagePreview, reading: MessageContext) -> dict[str, Any]:
    """Represent a row that :func:`~.message_pages.read_payloads` has filled."""
    agent, dialect = reading.agent_of(row)
    corrupt = row.read and isinstance(row.payload, CorruptPayload)
    data = _represent(row, _message_table()) | {
        "session": str(reading.session),
        "agent": agent,
        "truncated": not row.read,
        "corrupt": corrupt,
        "parts": [],
    }
    if not reading.authors:
        data["author"] = ""
    if not row.read:
        data["parts"] = [_part(Part(PartKind.TEXT, text=row.head), (), "")] if row.head else []
    elif not corrupt:
        media = reading.media_url.format(message=row.id) if reading.media_url else ""
        data["parts"] = _parts(dialect.blocks(row.payload), media)
        if reading.raw:
            data |= _raw(row.payload)
    return data


def _table_of(serializer: type[serializers.Serializer[Any]], *computed: str) -> _Table:
    """Return the fields of a serializer as a table, except those that a function computes.

    REST framework's own way asks each field of each row for its attribute, its default and its
    errors, which takes several times as long.
    """
    fields: Any = serializer().fields
    return [
        (name, attrgetter(field.source), getattr(field, "convert", field.to_representation))
        for name, field in fields.items()
        if name not in computed
    ]


def _represent(row: Any, table: _Table) -> dict[str, Any]:
    """Represent a row by a table."""
    return {
        name: None if (value := read(row)) is None else convert(value)
        for name, read, convert in table
    }


def _raw(payload: Any) -> dict[str, Any]:
    """Return the payload as it is stored, without the hashes of external binaries.

    Returns nothing for a payload that another program wrote and that exceeds what may be stored.
    """
    try:
        return {"raw": json.loads(exact_json.without_hashes(exact_json.dumps(payload)))}
    except (PayloadError, RecursionError):
        return {}


def _parts(payload_blocks: Sequence[TranscriptBlock], media: str) -> list[dict[str, Any]]:
    return [
        _part(part, block.path, media, block.inner if index == 0 else ())
        for block in payload_blocks
        for index, part in enumerate(block.parts)
    ]


def _part(
    part: Part, path: Path, media: str, inner: Sequence[TranscriptBlock] = ()
) -> dict[str, Any]:
    return _represent(part, _part_table()) | {
        "path": list(path),
        "url": _url(part, path, media),
        "parts": _parts(inner, media) if inner else _inline_parts(part.parts, path, media),
    }


@cache
def _message_table() -> _Table:
    return _table_of(MessageSerializer, "session", "agent", "truncated", "corrupt", "parts", "raw")


@cache
def _part_table() -> _Table:
    return _table_of(PartSerializer, "path", "url", "parts")


def _inline_parts(parts: Sequence[Part], path: Path, media: str) -> list[dict[str, Any]]:
    """Represent contents that are no list in the payload; a single image has the result's path."""
    if len(parts) == 1 and parts[0].kind in _MEDIA:
        return [_part(parts[0], path, media)]
    return [_part(part, (), "") for part in parts]


def _url(part: Part, path: Path, media: str) -> str:
    """Return a web URL of the part itself, or this API's URL of a binary in the message."""
    if part.url.lower().startswith(_WEB):
        return displayable(part.url)
    if media and part.size is not None and part.kind in _MEDIA:
        separator = "&" if "?" in media else "?"
        return f"{media}{separator}path={quote(json.dumps(list(path)))}"
    return ""


def media_url(view: Any) -> str:
    """Return the media URL with ``{message}`` for the id; empty if the router has none."""
    match = view.request.resolver_match
    name = "message-media" if match is None else f"{match.namespace}:message-media".lstrip(":")
    # The arguments of the project's part of the path come first.
    kwargs = {} if match is None else match.kwargs
    prefix = [value for key, value in kwargs.items() if key not in view.kwargs]
    try:
        args = [*prefix, _ANY_MESSAGE]
        url = reverse(name, args=args, current_app=match.namespace if match else None)
    except NoReverseMatch:
        return ""
    # str.format would read braces of the prefix as a field.
    url = url.replace("{", "%7B").replace("}", "%7D").replace(str(_ANY_MESSAGE), "{message}")
    return f"{url}?{SCOPE}={SCOPE_ALL}" if view.asks_for_everybody else url
