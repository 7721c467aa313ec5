r"""Lossless export of sessions as JSON Lines.

Each line is one session in the format that ``docs/how-to/interchange.md`` describes. Payloads are
written as stored: :func:`~.content.exact_json.loads` parses a line with exact payloads,
including bytes, NUL, lone surrogates and key order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef

from django_agent_sessions.content import exact_json
from django_agent_sessions.db import bridge
from django_agent_sessions.db.loop_guard import sync_only
from django_agent_sessions.models import (
    Branch,
    Label,
    MessageFeedback,
    Note,
    Review,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
)
from django_agent_sessions.models.stored_text import PAYLOAD_TEXT, StoredText
from django_agent_sessions.models.users import with_owners

from .json_rows import json_object, plain, read_row, without_suffix
from .jsonl_blobs import OnBlob, OnLost, each_blob
from .jsonl_blobs import hashes as hashes_in
from .row_pages import each_message, each_session

JSONL_FORMAT = "django-agent-sessions"
"""The value of the first key of each line."""

VERSION = 1
"""The version of the format; importers reject later ones."""

SESSION_COLUMNS = (
    "id",
    "namespace",
    "scope",
    "session_id",
    "session_type",
    "external_id",
    "title",
    "title_derived",
    "metadata",
    "origin",
    "redaction_epoch",
    "redactions",
    "message_count",
    "error_count",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cost",
    "legal_hold",
    "created_at",
    "updated_at",
    "last_activity_at",
    "archived_at",
    "expires_at",
)
"""The columns of a session; the owner is added separately."""

AGENT_COLUMNS = ("id", "agent_id", "dialect", "main_name", "created_at", "updated_at")
AGENT_PAYLOADS = ("state", "conversation_manager_state", "internal_state", "window")
MESSAGE_COLUMNS = (
    "id",
    "branch",
    "message_id",
    "source",
    "external_id",
    "author",
    "run_id",
    "revision",
    "role",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "latency_ms",
    "has_error",
    "model",
    "redacted_at",
    "redaction",
    "created_at",
    "updated_at",
)
_LEFT_OUT = {
    "source": None,
    "external_id": None,
    "author": "",
    "cache_read_tokens": None,
    "cache_write_tokens": None,
    "model": "",
}
"""Columns that a message's object has only with another value."""
BRANCH_COLUMNS = ("number", "name", "kind", "parent", "start", "created_at")
FEEDBACK_COLUMNS = ("id", "user", "source", "value", "created_at", "updated_at")
FEEDBACK_PAYLOADS = ("comment",)
REVIEW_COLUMNS = (
    "state",
    "assignee_id",
    "assignee",
    "updated_by_id",
    "updated_by",
    "updated_at",
)
NOTE_COLUMNS = ("id", "message", "author_id", "author", "created_at", "updated_at")
NOTE_PAYLOADS = ("text",)
LABEL_COLUMNS = ("id", "message", "name", "created_at")
MULTI_AGENT_COLUMNS = ("id", "multi_agent_id", "kind", "created_at", "updated_at")
MULTI_AGENT_PAYLOADS = ("state",)
_REVIEW_ROWS: dict[Any, tuple[tuple[str, ...], tuple[str, ...]]] = {
    Review: (REVIEW_COLUMNS, ()),
    Note: (NOTE_COLUMNS, NOTE_PAYLOADS),
    Label: (LABEL_COLUMNS, ()),
}


@sync_only
def export_sessions(
    sessions: Iterable[Session],
    *,
    using: str | None = None,
    states: bool = True,
    blobs: bool | Path | OnBlob = True,
    lost: OnLost | None = None,
    feedback_by: str | None = None,
    reviews: bool = True,
) -> Iterator[str]:
    """Export sessions, one per line. The caller is responsible for the audit.

    Args:
        sessions: Session rows or a queryset. Sessions that were deleted meanwhile are skipped.
        using: The database alias.
        states: Include the states of agents and orchestrators, which are often internal. Without
            them the copy is incomplete.
        blobs: Include the large binaries that are in a storage. Without them the copy is
            incomplete. A path is a directory to which they are written. A function is called with
            the row of each, whose file the caller writes.
        lost: Called with the error of each missing or damaged binary, which is omitted; by default
            a warning is logged.
        feedback_by: Include only the feedback of this user, a primary key as text; by default that
            of all users.
        reviews: Include the notes, the labels and the state of the review, which the owner of a
            session must not see.

    Yields:
        Pieces of lines, each about as large as one message or binary, encodable to UTF-8. The last
        piece of a session ends with a line feed.
    """
    alias = bridge.database(using)
    for key in each_session(sessions):
        yield from _line(key, alias, states, blobs, lost, feedback_by, reviews)


def _line(
    key: UUID,
    alias: str,
    states: bool,
    blobs: bool | Path | OnBlob,
    lost: OnLost | None,
    feedback_by: str | None,
    reviews: bool,
) -> Iterator[str]:
    feedback = MessageFeedback.objects.using(alias).order_by("pk")
    if feedback_by is not None:
        feedback = feedback.filter(user=feedback_by)
    present = {"rated": Exists(feedback.filter(session=OuterRef("pk")))}
    if reviews:
        found = _reviews(alias, OuterRef("pk"))
        present |= {f"has_{name}": Exists(rows) for name, rows in found.items()}
    sessions = with_owners(Session.objects.using(alias)).annotate(**present)
    session: Any = sessions.filter(pk=key).first()
    if session is None:
        return
    head = {column: plain(getattr(session, column)) for column in SESSION_COLUMNS}
    head["owner"] = _owner(session)
    header = exact_json.dumps(head)
    yield f'{{"format":"{JSONL_FORMAT}","version":{VERSION},"session":{header},"agents":['
    hashes: set[str] = set()
    yield from _agents(key, alias, states, hashes, feedback if session.rated else None)
    yield '],"multi_agents":['
    yield from _multi_agents(key, alias, states)
    yield "]"
    for name, rows in _reviews(alias, key).items() if reviews else ():
        if getattr(session, f"has_{name}"):
            yield f',"{name}":[{",".join(_review_rows(rows))}]'
    if blobs and hashes:
        yield ',"blobs":['
        yield from each_blob(key, hashes, alias, None if blobs is True else blobs, lost)
        yield "]"
    yield "}\n"


def _reviews(alias: str, session: Any) -> dict[str, Any]:
    """Return the rows of a session's review by their keys in a line."""
    return {
        "reviews": Review.objects.using(alias).filter(session=session),
        "notes": Note.objects.using(alias).filter(session=session),
        "labels": Label.objects.using(alias).filter(session=session),
    }


def _review_rows(rows: Any) -> Iterator[str]:
    columns, texts = _REVIEW_ROWS[rows.model]
    stored = {f"{name}_text": StoredText(name) for name in texts}
    for row in rows.order_by("pk").values(*columns, **stored):
        yield json_object(without_suffix(row), texts)


def _agents(
    session: UUID, alias: str, states: bool, hashes: set[str], feedback: Any
) -> Iterator[str]:
    agents = SessionAgent.objects.using(alias).filter(session=session).order_by("pk")
    texts, comma = (AGENT_PAYLOADS if states else ()), ""
    # One by one, because states may be large.
    for key in list(agents.values_list("pk", flat=True)):
        row = read_row(agents.filter(pk=key), AGENT_COLUMNS, texts)
        if row is not None:
            if row["main_name"] is None:
                del row["main_name"]
            yield f'{comma}{json_object(row, texts)[:-1]},{_branches(key, alias)}"messages":['
            yield from _messages(key, alias, hashes, feedback)
            yield "]}"
            comma = ","


def _branches(agent: UUID, alias: str) -> str:
    """Return the JSON of the side branches, or an empty string."""
    rows = Branch.objects.using(alias).filter(agent=agent).order_by("number")
    found = [json_object(row, ()) for row in rows.values(*BRANCH_COLUMNS)]
    return f'"branches":[{",".join(found)}],' if found else ""


def _messages(agent: UUID, alias: str, hashes: set[str], feedback: Any) -> Iterator[str]:
    messages = SessionMessage.objects.using(alias).filter(agent=agent)
    read_feedback = None if feedback is None else partial(_feedback_by_message, feedback)
    comma = ""
    for branch in list(messages.order_by("branch").values_list("branch", flat=True).distinct()):
        on_branch = messages.filter(branch=branch)
        for row in each_message(
            on_branch, "message_id", MESSAGE_COLUMNS, read_feedback, content=PAYLOAD_TEXT
        ):
            row["message"] = row.pop("content")
            row["redacted"] = row["redacted_at"] is not None
            for name, absent in _LEFT_OUT.items():
                if row[name] == absent:
                    del row[name]
            written = ["message"]
            hashes |= hashes_in(row["message"])
            if "feedback" in row:
                written.append("feedback")
            yield comma + json_object(row, written)
            comma = ","


def _feedback_by_message(feedback: Any, messages: Sequence[UUID]) -> dict[UUID, str]:
    """Return the JSON of the feedback on messages, by their keys."""
    found: dict[UUID, list[str]] = {}
    texts = {f"{name}_text": StoredText(name) for name in FEEDBACK_PAYLOADS}
    rows = feedback.filter(message__in=messages)
    for row in rows.values(*FEEDBACK_COLUMNS, "message_id", **texts):
        listed = found.setdefault(row.pop("message_id"), [])
        listed.append(json_object(without_suffix(row), FEEDBACK_PAYLOADS))
    return {message: f"[{','.join(listed)}]" for message, listed in found.items()}


def _multi_agents(session: UUID, alias: str, states: bool) -> Iterator[str]:
    rows = SessionMultiAgent.objects.using(alias).filter(session=session).order_by("pk")
    texts, comma = (MULTI_AGENT_PAYLOADS if states else ()), ""
    for key in list(rows.values_list("pk", flat=True)):
        row = read_row(rows.filter(pk=key), MULTI_AGENT_COLUMNS, texts)
        if row is not None:
            yield comma + json_object(row, texts)
            comma = ","


def _owner(session: Session) -> Mapping[str, str] | None:
    if session.owner is None:
        return None
    return {"id": str(session.owner.pk), "username": session.owner.get_username()}
