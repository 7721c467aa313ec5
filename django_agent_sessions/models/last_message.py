"""The last message of each session of a queryset, in the statement that reads the sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.db import models
from django.db.models import Case, F, OuterRef, Q, Subquery, When
from django.db.models.functions import Concat, Substr
from django.db.models.lookups import LessThanOrEqual

from django_agent_sessions.content import codec, dialects

from .fields import decode_payload
from .functions import OctetLength, TypedText
from .stored_text import StoredText, opened_text

if TYPE_CHECKING:
    _TextField = models.TextField[Any, Any]
else:
    _TextField = models.TextField

_LENGTH = 500
_MAX_SEALED = 64 * 1024
"""The most bytes of an encrypted message that is read for its text."""
_SEPARATOR = "\n"


class _SealedBeginningField(_TextField):
    """The beginning of a message's text, of which the database has the dialect and the payload."""

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> str | None:
        if value is None:
            return None
        dialect, _, stored = value.partition(_SEPARATOR)
        if not dialect:
            return stored
        return dialects.get(dialect).summary(decode_payload(opened_text(stored))).text[:_LENGTH]


def last_message_columns() -> dict[str, Subquery]:
    """Return the annotations of :meth:`SessionQuerySet.with_last_message`."""
    message = apps.get_model("agent_sessions", "SessionMessage")
    last = message._base_manager.filter(session=OuterRef("pk"), branch=0).order_by("-id")
    return {
        "last_message_at": Subquery(last.values("created_at")[:1]),
        "last_message_role": Subquery(last.values("role")[:1]),
        "last_message_text": Subquery(last.values(beginning=_beginning())[:1]),
    }


def _beginning() -> Any:
    text = Substr("text", 1, _LENGTH)
    if codec.is_plain():
        return text
    # Encryption leaves the column `text` empty.
    payload = StoredText("message", output_field=_TextField())
    is_sealed = Q(text="") & LessThanOrEqual(OctetLength("message"), _MAX_SEALED)
    sealed = Concat(F("agent__dialect"), TypedText(_SEPARATOR), payload, output_field=_TextField())
    return Case(
        When(is_sealed, then=sealed),
        default=Concat(TypedText(_SEPARATOR), text, output_field=_TextField()),
        output_field=_SealedBeginningField(),
    )
