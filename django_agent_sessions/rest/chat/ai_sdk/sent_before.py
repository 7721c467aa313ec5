"""What a session has of a message that a client sends again."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django_agent_sessions.content import dialects
from django_agent_sessions.content.dialects import Part, PartKind
from django_agent_sessions.models import MAIN_BRANCH
from django_agent_sessions.models.querysets import MessageQuerySet
from django_agent_sessions.models.stored_text import visible_payload
from django_agent_sessions.rest.converters import parse_uuid
from django_agent_sessions.rest.problems import Conflict

from .chat import ChatRequest
from .claims import Refusal, Stored


def stored_after(rows: MessageQuerySet, before: UUID | None) -> Stored:
    """Return what a session has after a message: a question, and its answer or none.

    ``rows`` are the session's messages.
    """
    rows = rows.filter(branch=MAIN_BRANCH)
    rows = rows if before is None else rows.filter(id__gt=before)
    question = rows.order_by("id").values_list("role", "agent_id").first()
    if question is None:
        return Stored.NOTHING
    role, agent = question
    # Other agents, which are tools of this one, may have messages of their own.
    last = _shown(rows.filter(agent=agent).order_by("-id"))
    return Stored.QUESTION if role == "user" and not _is_answer(*last) else Stored.ANSWER


def answer_after(rows: MessageQuerySet, before: UUID | None) -> UUID | None:
    """Return the primary key of the first row of the answer after a message."""
    rows = rows.filter(branch=MAIN_BRANCH, role="assistant")
    rows = rows if before is None else rows.filter(id__gt=before)
    return rows.order_by("id").values_list("id", flat=True).first()


def find_question(rows: MessageQuerySet, incoming: ChatRequest) -> tuple[UUID | None] | None:
    """Return the last message before a stored one that a client sends again by its primary key.

    Returns ``None`` if the session has no such message. Raises ``Conflict`` if it has an answer, or
    the client has edited it.
    """
    rows = rows.filter(branch=MAIN_BRANCH)
    key = parse_uuid(incoming.message_id)
    if key is None or not (stored := _shown(rows.filter(pk=key))):
        return None
    role, parts = stored
    text = "\n".join(part.text for part in parts if part.kind is PartKind.TEXT)
    if role != "user" or text != incoming.text:
        raise Conflict(Refusal.EDITED.value)
    before = rows.filter(id__lt=key).order_by("-id").values_list("id", flat=True).first()
    if stored_after(rows, before) is not Stored.QUESTION:
        raise Conflict(Refusal.SENT.value)
    return (before,)


def _shown(rows: MessageQuerySet) -> tuple[Any, ...]:
    """Return the role and the parts of the first row, or an empty tuple."""
    columns = rows.annotate(shown=visible_payload()).values_list("role", "agent__dialect", "shown")
    found = columns.first()
    return () if found is None else (found[0], dialects.get(found[1]).parts(found[2]))


def _is_answer(role: str, parts: tuple[Part, ...]) -> bool:
    """Return whether a message ends a turn: it is neither a result, a call, nor only reasoning."""
    kinds = {part.kind for part in parts}
    return role == "assistant" and not kinds <= {PartKind.REASONING, PartKind.TOOL_CALL}
