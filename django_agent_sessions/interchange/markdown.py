r"""Export of a session as Markdown (CommonMark), readable as plain text or rendered.

Content must not look like a heading, a label or another message of the document. Therefore no
content is at the beginning of a line:

* content is in block quotes: each line, by any definition of a line, begins with ``> ``; the
  Markdown of texts and reasoning is rendered within the quote;
* ``<`` is escaped there if it could begin HTML, which could end the quote;
* arguments, results and raw values are in fences longer than any run of backticks in them;
* names, ids, titles and URLs are on one line, with Markdown's special characters escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef
from django.utils.timezone import is_aware

from django_agent_sessions.content import dialects
from django_agent_sessions.content.blob_refs import BlobRef
from django_agent_sessions.content.dialects import Part, PartKind, displayable
from django_agent_sessions.content.exact_json import without_hashes
from django_agent_sessions.db import bridge
from django_agent_sessions.db.loop_guard import sync_only
from django_agent_sessions.models import MessageFeedback, Session, SessionAgent, SessionMessage
from django_agent_sessions.models.fields import CorruptPayload, decode_payload
from django_agent_sessions.models.session_names import SessionName, session_key
from django_agent_sessions.models.stored_text import PAYLOAD_TEXT
from django_agent_sessions.models.users import with_owners

from .row_pages import RowDict, each_message

_SPECIAL = re.compile(r"[\\`*_\[\]<>#&|~]")
# Not if it is escaped already, that is after an odd number of backslashes.
_HTML = re.compile(r"(?<!\\)((?:\\\\)*)<(?=[A-Za-z/!?])")
# The same without a backslash in the text: it is found without a look at each character.
_PLAIN_HTML = re.compile(r"<(?=[A-Za-z/!?])")
_BACKTICKS = re.compile("`+")
_COLUMNS = (
    "id",
    "agent_id",
    "branch",
    "message_id",
    "role",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "latency_ms",
    "redacted_at",
    "created_at",
)
_Agents = Mapping[UUID, tuple[str, str]]


@sync_only
def export_markdown(
    session: SessionName, *, using: str | None = None, feedback_by: str | None = None
) -> Iterator[str]:
    """Export a session as Markdown. The caller is responsible for the audit.

    The document contains the messages of all agents in the order of their creation, in their
    redacted versions, with the feedback on them, and no states.

    Args:
        session: The session: its record, its model instance, its primary key or its
            ``session_id`` without a namespace.
        using: The database alias.
        feedback_by: Include only the feedback of this user, a primary key as text; by default that
            of all users.

    Yields:
        Pieces of the document, about one per message; nothing if the session was deleted.
    """
    alias = bridge.database(using)
    feedback = MessageFeedback.objects.using(alias).order_by("pk")
    if feedback_by is not None:
        feedback = feedback.filter(user=feedback_by)
    rated = Exists(feedback.filter(session=OuterRef("pk")))
    rows = with_owners(Session.objects.using(alias).with_display_title()).annotate(rated=rated)
    row: Any = rows.filter(pk=session_key(session, alias)).first()
    if row is None:
        return
    found = SessionAgent.objects.using(alias).filter(session=row.pk).order_by("pk")
    agents = {key: (name, dialect) for key, name, dialect in found.values_list(*_AGENT)}
    yield _head(row, agents)
    messages = SessionMessage.objects.using(alias).filter(session=row.pk)
    read = partial(_feedback_by_message, feedback) if row.rated else None
    for message in each_message(messages, "id", _COLUMNS, read, content=PAYLOAD_TEXT):
        yield _message(message, agents)


_AGENT = ("pk", "agent_id", "dialect")


def _head(session: Session, agents: _Agents) -> str:
    owner = session.owner.get_username() if session.owner is not None else "nobody"
    facts = [
        ("Session", session.session_id),
        ("Key", str(session.pk)),
        ("Namespace", session.namespace),
        ("Scope", session.scope),
        ("Owner", owner),
        ("Agents", ", ".join(name for name, _dialect in agents.values())),
        ("Messages", str(session.message_count)),
        ("Tokens in", _tokens(session.input_tokens) + _cached(vars(session))),
        ("Tokens out", _tokens(session.output_tokens)),
        ("Redactions", str(session.redactions)),
        ("Legal hold", "yes" if session.legal_hold else "no"),
        ("Created", _time(session.created_at)),
        ("Last activity", _time(session.last_activity_at)),
    ]
    lines = [f"- {name}: {_inline(value)}" for name, value in facts if value]
    return f"# {_inline(session.display_title)}\n\n" + "\n".join(lines) + "\n"


def _tokens(count: int | None) -> str:
    return "unknown" if count is None else str(count)


def _cached(row: Mapping[str, Any]) -> str:
    """Return the tokens of a prompt cache; an empty text if none were reported."""
    read, written = row["cache_read_tokens"], row["cache_write_tokens"]
    if read is None and written is None:
        return ""
    return f" ({read or 0} from cache, {written or 0} to cache)"


def _message(row: RowDict, agents: _Agents) -> str:
    # An agent that was created after the export began is not in the mapping.
    name, dialect = agents.get(row["agent_id"], (str(row["agent_id"]), ""))
    payload = decode_payload(row["content"])
    if isinstance(payload, CorruptPayload):
        blocks = ["**Unreadable payload**\n\n" + _code_block(without_hashes(payload.text))]
    else:
        blocks = [_part(part) for part in dialects.get(dialect).parts(payload)]
    blocks.append(row.get("feedback", ""))
    return "\n" + "\n\n".join([_heading(row, name), *filter(None, blocks)]) + "\n"


def _feedback_by_message(feedback: Any, messages: Sequence[UUID]) -> dict[UUID, str]:
    """Return the Markdown of the feedback on messages, by their keys."""
    found: dict[UUID, list[str]] = {}
    for row in feedback.filter(message__in=messages):
        found.setdefault(row.message_id, []).append(_feedback(row))
    return {message: "\n\n".join(blocks) for message, blocks in found.items()}


def _feedback(row: MessageFeedback) -> str:
    facts = [MessageFeedback.Value(row.value).name.lower(), row.source, _time(row.updated_at)]
    line = "**Feedback** " + " · ".join(map(_inline, facts))
    comment: Any = row.comment
    if isinstance(comment, CorruptPayload):
        return f"{line}\n\n{_code_block(without_hashes(comment.text))}"
    return f"{line}\n\n{_quote(comment)}" if comment else line


def _heading(row: RowDict, agent: str) -> str:
    position = f"{row['message_id']}"
    if row["branch"]:
        position += f" of branch {row['branch']}"
    heading_parts = [
        position,
        _inline(row["role"] or "message"),
        _inline(agent),
        _time(row["created_at"]),
    ]
    heading = "## " + " · ".join(heading_parts)
    notes = []
    if row["redacted_at"] is not None:
        notes.append(f"redacted {_time(row['redacted_at'])}")
    if row["input_tokens"] is not None or row["output_tokens"] is not None:
        read = f"{row['input_tokens'] or 0} in{_cached(row)}"
        notes.append(f"tokens {read}, {row['output_tokens'] or 0} out")
    if row["latency_ms"] is not None:
        notes.append(f"{row['latency_ms']} ms")
    return f"{heading}\n\n*{'; '.join(notes)}*" if notes else heading


def _part(part: Part) -> str:
    if part.kind is PartKind.TEXT:
        return _quote(part.text)
    if part.kind is PartKind.REASONING:
        return "**Reasoning**\n\n" + _quote(part.text or f"(encrypted, {_size(part)})")
    if part.kind is PartKind.TOOL_CALL:
        return f"**Tool call** {_labels(part)}\n\n" + _json_block(part.data)
    if part.kind is PartKind.TOOL_RESULT:
        return _result(part)
    if part.kind in (PartKind.IMAGE, PartKind.DOCUMENT):
        return _media(part)
    return "**Unknown content**\n\n" + _json_block(part.data)


def _result(part: Part) -> str:
    blocks = [f"**Tool result** {_labels(part)}".rstrip()]
    contents = part.parts or (part,)
    for content in contents:
        if content.kind in (PartKind.IMAGE, PartKind.DOCUMENT):
            blocks.append(_media(content))
        elif content.text:
            blocks.append(_code_block(content.text))
        elif content.data is not None:
            blocks.append(_json_block(content.data))
    has_data = any(content.data is not None for content in contents)
    if part.parts and part.data is not None and not has_data:
        blocks.append(_json_block(part.data))
    return "\n\n".join(blocks)


def _media(part: Part) -> str:
    label = "Image" if part.kind is PartKind.IMAGE else "Document"
    facts = [part.name, part.media_type or "unknown type", _size(part), part.url]
    line = f"**{label}** " + ", ".join(_inline(fact) for fact in facts if fact)
    return f"{line}\n\n{_quote(part.text)}" if part.text else line


def _labels(part: Part) -> str:
    facts = [part.name, part.call_id and f"({part.call_id})", part.status]
    return " ".join(_inline(fact) for fact in facts if fact)


def _size(part: Part) -> str:
    return "" if part.size is None else f"{part.size} bytes"


def _time(moment: datetime) -> str:
    if is_aware(moment):
        return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def _inline(text: str) -> str:
    """Return content on one line with Markdown's special characters escaped."""
    line = " ".join(displayable(text).split())
    return _SPECIAL.sub(r"\\\g<0>", line)


def _quote(text: str) -> str:
    """Return content as a block quote, in which its Markdown is rendered."""
    shown = displayable(text)
    if "\\" not in shown:
        return _block_quote(_PLAIN_HTML.sub(r"\\<", shown))
    return _block_quote(_HTML.sub(r"\1\\<", shown))


def _code_block(text: str, language: str = "text") -> str:
    """Return content as a quoted code block."""
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return _block_quote(f"{fence}{language}\n{displayable(text)}\n{fence}")


def _block_quote(text: str) -> str:
    # All line separators: Markdown knows only three of them, but editors show more.
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _json_block(value: Any) -> str:
    if isinstance(value, str):
        return _code_block(value)
    try:
        text = json.dumps(value, ensure_ascii=False, indent=2, default=_describe)
    except (ValueError, RecursionError):
        # An integer with too many digits for Python, or lists nested too deeply.
        return "*(too large for this document; see the JSON Lines export)*"
    return _code_block(text, "json")


def _describe(value: Any) -> str:
    """Describe a value that JSON cannot express."""
    if isinstance(value, bytes | bytearray | memoryview):
        return f"({len(value)} bytes)"
    if isinstance(value, BlobRef):
        return f"({value.size} bytes)"
    return f"({type(value).__name__})"
