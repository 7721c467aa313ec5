"""What a session is called: its title, or the first words of its first user."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.apps import apps
from django.db import models
from django.db.models import Case, F, OuterRef, Q, Subquery, UUIDField, Value, When
from django.db.models.functions import Cast, Coalesce, Concat, Replace, Substr
from django.db.models.lookups import LessThanOrEqual

from django_agent_sessions.content import codec, dialects
from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.content.dialects.redaction import mask
from django_agent_sessions.exceptions import EncryptionError

from .fields import decode_payload
from .functions import Joined, OctetLength, TypedText
from .stored_text import StoredText, opened_text

if TYPE_CHECKING:
    _TextField = models.TextField[Any, Any]
else:
    _TextField = models.TextField

logger = logging.getLogger(__name__)

MAX_TITLE_WORDS = 80
"""The most characters of a title that is made of the first words."""

_LENGTH = 500
_MASK = mask()
_SEARCHED_MESSAGES = 20
"""How many messages are looked at, so that one session cannot slow a list down."""

_MAX_SEALED = 64 * 1024
"""The most bytes of an encrypted message that is read for its text."""

_MAX_OPENED = 3
"""How many of them are read if they are encrypted, until one has words."""

_SEPARATOR = "\n"
_NEXT = "\x1e"
"""Separates encrypted messages: their envelopes are JSON, which escapes this character."""

_RESULT_KEY = '"toolResult":'
"""How a result of a tool begins. A text has its quotation marks escaped."""
_BEGINNING_LENGTH = 200
_BEGINNING = Substr("message", 1, _BEGINNING_LENGTH, output_field=models.TextField())


def first_words(text: str) -> str:
    """Return how a displayable text begins, in one line; empty if it is redacted completely."""
    # Imported here, because masking reads archives and a start would load all of that.
    from django_agent_sessions.content.masking import MASK_PATTERN

    words = " ".join(text.split())
    if not MASK_PATTERN.sub("", words).strip():
        return ""
    if len(words) <= MAX_TITLE_WORDS:
        return words
    head = words[: MAX_TITLE_WORDS - 1]
    cut = head.rpartition(" ")[0]
    return f"{cut if len(cut) > MAX_TITLE_WORDS // 3 else head}…"


class MessageTextField(_TextField):
    """A message's key, role and text, as :func:`_key_role_and_text` selects them.

    None for a text that cannot be decrypted: the other sessions of a list stay readable.
    """

    takes_several = False
    """Whether the first of several messages that has words is wanted."""

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Any:
        # There is one, unless a subclass takes several.
        for message in (value or "").split(_NEXT) if self.takes_several else [value]:
            try:
                said = self._read(message) if message else None
            except EncryptionError as error:
                key = UUID(str(message).partition(_SEPARATOR)[0])
                logger.warning("the text of message %s cannot be decrypted: %s", key, error)
                return None
            if said is not None:
                return said
        return None

    def _read(self, message: str) -> Any:
        key, role, dialect, text = message.split(_SEPARATOR, 3)
        if dialect:
            text = self._text(dialects.get(dialect), opened_text(text))
        if not text:
            return None
        return {"message": str(UUID(key)), "role": role, "text": text[:_LENGTH]}

    def _text(self, dialect: dialects.Dialect, payload: str) -> str:
        return displayable(dialect.summary(decode_payload(payload)).text)


class _OpeningWordsField(MessageTextField):
    """The first words alone, unless the text is that of a tool's result or has none."""

    def __init__(self, *, takes_several: bool) -> None:
        super().__init__(null=True)
        self.takes_several = takes_several

    def _read(self, message: str) -> Any:
        said = super()._read(message)
        return (said and first_words(said["text"])) or None

    def _text(self, dialect: dialects.Dialect, payload: str) -> str:
        return "" if begins_with_result(payload) else super()._text(dialect, payload)


def opening_words() -> Case:
    """Return the annotation of the first words of a user, of sessions without a title.

    Results of tools have the role of the user in some formats, and are no text of a user. Of
    encrypted messages, three are read.
    """
    first = _first_few().filter(role="user").order_by("id")
    if is_plain := codec.is_plain():
        # First, because large messages without a text then need not be read.
        first = first.exclude(text__in=("", _MASK))
    said: Any = _key_role_and_text(is_plain=is_plain)
    if not is_plain:
        said = Replace(said, TypedText(_NEXT), TypedText(" "), output_field=_TextField())
    first = without_tool_results(first).values(said=said)
    found = [Subquery(first[place : place + 1]) for place in range(1 if is_plain else _MAX_OPENED)]
    texts = found[0] if is_plain else Joined(_NEXT, *found)
    return Case(
        When(title="", then=texts), output_field=_OpeningWordsField(takes_several=not is_plain)
    )


def without_tool_results(messages: Any) -> Any:
    """Return the messages but those that begin with a tool's result, if they are not encrypted."""
    return messages.annotate(begins=_BEGINNING).exclude(begins__contains=_RESULT_KEY)


def begins_with_result(payload: str) -> bool:
    """Return whether the message with this text begins with a tool's result."""
    return _RESULT_KEY in payload[:_BEGINNING_LENGTH]


def last_text() -> Subquery:
    """Return the annotation of the last text of a session: a dict, or None."""
    has_text = ~Q(text="")
    if not (is_plain := codec.is_plain()):
        # Encryption leaves the column `text` empty.
        has_text |= Q(LessThanOrEqual(OctetLength("message"), _MAX_SEALED))
    last = _first_few(newest=True).filter(has_text).order_by("-id")
    return Subquery(
        last.values(said=_key_role_and_text(is_plain=is_plain))[:1],
        output_field=MessageTextField(null=True),
    )


def _first_few(*, newest: bool = False) -> Any:
    """Return the first messages of the outer session, or the last ones."""
    ordered = _messages(OuterRef(OuterRef("pk"))).order_by("-id" if newest else "id")
    beyond = ordered.values("id")[_SEARCHED_MESSAGES : _SEARCHED_MESSAGES + 1]
    farthest = Value(UUID(int=0 if newest else 2**128 - 1), output_field=UUIDField())
    limit = Coalesce(Subquery(beyond), farthest)
    return _messages(OuterRef("pk")).filter(Q(id__gt=limit) if newest else Q(id__lt=limit))


def _messages(session: Any) -> Any:
    message = apps.get_model("agent_sessions", "SessionMessage")
    return message._base_manager.filter(session=session, branch=0)


def _key_role_and_text(*, is_plain: bool) -> Concat:
    """Return a message's key, role, dialect if it is sealed, and text, in one column."""
    text: Any = Concat(TypedText(_SEPARATOR), Substr("text", 1, _LENGTH))
    if not is_plain:
        payload = StoredText("message", output_field=_TextField())
        sealed = Concat(
            F("agent__dialect"), TypedText(_SEPARATOR), payload, output_field=_TextField()
        )
        is_sealed = Q(text="") & LessThanOrEqual(OctetLength("message"), _MAX_SEALED)
        text = Case(When(is_sealed, then=sealed), default=text, output_field=_TextField())
    return Concat(
        Cast("pk", _TextField()),
        TypedText(_SEPARATOR),
        F("role"),
        TypedText(_SEPARATOR),
        text,
        output_field=_TextField(),
    )
