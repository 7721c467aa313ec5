"""What a session has of a message that a client sends again."""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Exists, OuterRef, Q

from django_agent_sessions.content import dialects
from django_agent_sessions.content.dialects import Part, PartKind
from django_agent_sessions.content.masking.on_write import mask_on_write
from django_agent_sessions.models import MAIN_BRANCH, Branch
from django_agent_sessions.models.querysets import MessageQuerySet
from django_agent_sessions.models.stored_text import stored_payload
from django_agent_sessions.rest.converters import parse_uuid

from .chat import ChatRequest
from .claims import Refusal, Stored


class SentBefore(NamedTuple):
    """A stored message of the user that a client sends again."""

    before: UUID | None
    """The last message before it; ``None`` if there was none."""

    text: str
    """Its text, as it is stored."""

    refusal: Refusal | None
    """Why it is not answered again; ``None`` if it has no answer."""


def stored_after(rows: MessageQuerySet, before: UUID | None, message_id: str) -> Stored:
    """Return what a session has after a message: a question, and its answer or none.

    ``rows`` are the session's messages, and ``message_id`` is the client's id of the question.
    """
    rows = rows.filter(branch=MAIN_BRANCH)
    rows = rows if before is None else rows.filter(id__gt=before)
    columns = "id", "role", "agent_id", "external_id"
    question = rows.order_by("id").values_list(*columns).first()
    if question is None:
        return Stored.NOTHING
    key, role, agent, external_id = question
    if external_id is not None and message_id not in (external_id, str(key)):
        # Another message, which was written after a rewind.
        return Stored.NOTHING
    # Other agents, which are tools of this one, may have messages of their own.
    last = _last(rows.filter(agent=agent))
    return Stored.QUESTION if role == "user" and not _is_answer(*last) else Stored.ANSWER


def answer_after(rows: MessageQuerySet, before: UUID | None) -> UUID | None:
    """Return the primary key of the first row of the answer after a message."""
    rows = rows.filter(branch=MAIN_BRANCH, role="assistant")
    rows = rows if before is None else rows.filter(id__gt=before)
    return rows.order_by("id").values_list("id", flat=True).first()


def find_question(rows: MessageQuerySet, incoming: ChatRequest) -> SentBefore | None:
    """Return the stored message with the client's id of a message, or with it as primary key.

    Returns ``None`` if the session has no such message. A message that a compaction has replaced is
    on a side branch.
    """
    if not incoming.message_id:
        return None
    has_id = Q(external_id=incoming.message_id)
    if (key := parse_uuid(incoming.message_id)) is not None:
        has_id |= Q(pk=key)
    compacted = Branch.objects.using(rows.db).filter(
        agent=OuterRef("agent"),
        number=OuterRef("branch"),
        kind=Branch.Kind.COMPACTED,
        # Those before are copies, which the main branch may have, too.
        start__lte=OuterRef("message_id"),
    )
    is_kept = Q(branch=MAIN_BRANCH) | Exists(compacted)
    shown = rows.filter(has_id).filter(is_kept).annotate(shown=stored_payload())
    columns = "id", "agent_id", "agent__dialect", "redacted_at", "shown", "branch"
    found = shown.order_by("branch", "-id").values_list(*columns).first()
    if found is None:
        return None
    key, agent, name, redacted_at, payload, branch = found
    dialect = dialects.get(name)
    text = dialect.question(payload)
    if text is None or not (redacted_at or _is_same(incoming, text, dialect.parts(payload))):
        is_named = incoming.names == incoming.message_id
        return SentBefore(None, "", Refusal.EDITED if is_named else Refusal.CHANGED)
    main = rows.filter(branch=MAIN_BRANCH)
    before = main.filter(id__lt=key).order_by("-id").values_list("id", flat=True).first()
    # Later questions of the user may have been answered.
    later = rows.filter(id__gte=key, agent=agent)
    is_answered = any(
        _is_answer(*_last(later.filter(branch=number))) for number in {MAIN_BRANCH, branch}
    )
    if not is_answered:
        return SentBefore(before, text, None)
    has_own = branch != MAIN_BRANCH or _has_own_answer(later.filter(branch=MAIN_BRANCH), key)
    return SentBefore(before, text, Refusal.SENT if has_own else Refusal.UNANSWERED)


def last_question(rows: MessageQuerySet) -> SentBefore | None:
    """Return the last message of the user, to be answered again; None if there is none."""
    main = rows.filter(branch=MAIN_BRANCH)
    columns: Any = main.filter(role="user").annotate(shown=stored_payload()).order_by("-id")
    for key, name, payload in columns.values_list("id", "agent__dialect", "shown").iterator(20):
        text = dialects.get(name).question(payload)
        if text is not None:
            before = main.filter(id__lt=key).order_by("-id").values_list("id", flat=True).first()
            return SentBefore(before, text, None)
    return None


def _has_own_answer(rows: MessageQuerySet, question: UUID) -> bool:
    """Return whether a question is answered before the next one that a client sent.

    ``rows`` begin with the question. What has no client's id may be a compaction's summary.
    """
    sent = rows.filter(id__gt=question, role="user", external_id__isnull=False)
    following = sent.order_by("id").values_list("id", flat=True).first()
    return following is None or _is_answer(*_last(rows.filter(id__lt=following)))


def _is_same(incoming: ChatRequest, text: str, parts: tuple[Part, ...]) -> bool:
    """Return whether a stored message is the one that is sent.

    The application may have added lines to its text, or left out its files.
    """
    kept = sum(part.kind in (PartKind.IMAGE, PartKind.DOCUMENT) for part in parts)
    if kept not in (0, len(incoming.files)):
        return False
    sent = (incoming.text, str(mask_on_write(incoming.text, free=True)))
    return any(f"\n{one}\n" in f"\n{text}\n" for one in sent) or not incoming.text


def _last(rows: MessageQuerySet) -> tuple[str, tuple[Part, ...]]:
    """Return the role and the parts of the last row; empty ones if there is none."""
    columns: Any = rows.annotate(shown=stored_payload())
    found = columns.order_by("-id").values_list("role", "agent__dialect", "shown").first()
    return ("", ()) if found is None else (found[0], dialects.get(found[1]).parts(found[2]))


def _is_answer(role: str, parts: tuple[Part, ...]) -> bool:
    """Return whether a message ends a turn: it is neither a result, a call, nor only reasoning."""
    kinds = {part.kind for part in parts}
    return role == "assistant" and not kinds <= {PartKind.REASONING, PartKind.TOOL_CALL}
