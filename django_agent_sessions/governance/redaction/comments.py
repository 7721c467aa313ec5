"""Redaction of the comments and notes on named messages."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from django.db.models import Model

from django_agent_sessions.content import masking
from django_agent_sessions.models import MessageFeedback, Note

from .copies import MessageCopies
from .excerpts import MAX_EXCERPT
from .findings import RowFindings
from .scope_groups import finder_for
from .scopes import Detect, Find, Hit, Place, WholeMessage

COMMENT_COLUMNS: dict[type[Model], str] = {MessageFeedback: "comment", Note: "text"}
"""The models whose rows are comments on messages, with the column of the text."""


def comments_on(
    using: str, session: UUID, model: type[Model], members: Mapping[UUID, MessageCopies]
) -> Collection[UUID]:
    """Return the keys of the comments on named messages of a session, and on their copies."""
    commented = {key for key, copies in members.items() if key in copies.commented}
    if not commented:
        return ()
    rows = model._base_manager.using(using).filter(session=session)
    found = rows.order_by().values_list("pk", "message_id")
    return [key for key, message in found if message in commented]


def mask_comment(found: RowFindings, copies: MessageCopies, *, with_text: bool) -> None:
    """Redact a comment as its message: completely, or what is found in it or was removed."""
    column = COMMENT_COLUMNS[type(found.copy.row)]
    place = found.place(column)
    comment = before = found.values.get(column, found.copy.values[column])
    for scope in copies.scopes:
        if isinstance(scope, WholeMessage):
            comment = _without_content(found, place, comment, with_text=with_text)
        elif isinstance(scope, Find | Detect):
            comment = found.mask(comment, place, free=True, finders=[finder_for(scope)])
        else:
            finders = [masking.TextFinder(text) for text in sorted(copies.removed_texts)]
            comment = found.mask(comment, place, free=True, finders=finders)
    if comment is not before:
        found.is_copy = True
        found.values[column] = comment


def _without_content(found: RowFindings, place: Place, comment: Any, *, with_text: bool) -> Any:
    text = comment if isinstance(comment, str) else comment.text
    if not text or text == masking.mask():
        return comment
    found.count(place)
    found.hits.append(Hit(place, "", text[:MAX_EXCERPT] if with_text else "", masking.mask()))
    found.secrets |= masking.masked_texts(text, masking.mask())
    return masking.mask()
