r"""A session as Markdown, for people: to be read as it is or rendered (CommonMark).

What users and models wrote must not look like the document's own words, that is like a heading,
a label, or another message. So none of it ever stands at the beginning of a line:

* all of it stands in quotes, every line behind ``> ``, whatever a reader takes for a line; the
  Markdown of texts and reasoning works within their quote and ends with it;
* ``<`` is escaped in them where HTML could begin, because HTML could end the quote;
* arguments, results and raw values stand in fences longer than any run of backticks in them;
* names, ids, titles and addresses are on one line of ours, with Markdown's characters escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.utils.timezone import is_aware

from django_agent_sessions import bridge, transcripts
from django_agent_sessions.fields import CorruptPayload, read
from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from django_agent_sessions.payloads import without_hashes
from django_agent_sessions.querysets import CONTENT_TEXT
from django_agent_sessions.references import BlobRef
from django_agent_sessions.transcripts import Part, PartKind, displayable

from .rows import Row, each_message

_SPECIAL = re.compile(r"[\\`*_\[\]<>#&|~]")
# Not one that is escaped already, that is behind an odd number of backslashes.
_HTML = re.compile(r"(?<!\\)((?:\\\\)*)<(?=[A-Za-z/!?])")
_BACKTICKS = re.compile("`+")
_COLUMNS = (
    "id",
    "agent_id",
    "branch",
    "message_id",
    "role",
    "input_tokens",
    "output_tokens",
    "latency_ms",
    "redacted_at",
    "created_at",
)
_Agents = Mapping[UUID, tuple[str, str]]


def export_markdown(session: Session, *, using: str | None = None) -> Iterator[str]:
    """Writes a session for people. It audits nothing: who lets somebody have it does.

    All agents' messages are in the order in which they were said, in their redacted versions.
    States are not in it; they are in the JSON Lines.

    Args:
        session: Its row.
        using: The alias of the database.

    Yields:
        The document, about a message at a time; nothing, if the session was deleted meanwhile.
    """
    alias = bridge.database(using)
    row = Session.objects.using(alias).select_related("owner").filter(pk=session.pk).first()
    if row is None:
        return
    found = SessionAgent.objects.using(alias).filter(session=row.pk).order_by("pk")
    agents = {key: (name, dialect) for key, name, dialect in found.values_list(*_AGENT)}
    yield _head(row, agents)
    messages = SessionMessage.objects.using(alias).filter(session=row.pk)
    for message in each_message(messages, "id", _COLUMNS, content=CONTENT_TEXT):
        yield _message(message, agents)


_AGENT = ("pk", "agent_id", "dialect")


def _head(session: Session, agents: _Agents) -> str:
    owner = session.owner.get_username() if session.owner is not None else "nobody"
    facts = [
        ("Title", session.title),
        ("Key", str(session.pk)),
        ("Namespace", session.namespace),
        ("Owner", owner),
        ("Agents", ", ".join(name for name, _dialect in agents.values())),
        ("Messages", str(session.message_count)),
        ("Tokens in", str(session.input_tokens)),
        ("Tokens out", str(session.output_tokens)),
        ("Redactions", str(session.redactions)),
        ("Legal hold", "yes" if session.legal_hold else "no"),
        ("Created", _time(session.created_at)),
        ("Last activity", _time(session.last_activity_at)),
    ]
    lines = [f"- {name}: {_inline(value)}" for name, value in facts if value]
    return f"# {_inline(session.session_id)}\n\n" + "\n".join(lines) + "\n"


def _message(row: Row, agents: _Agents) -> str:
    # An agent that is newer than the export's beginning has no name here yet.
    name, dialect = agents.get(row["agent_id"], (str(row["agent_id"]), ""))
    payload = read(row["content"])
    if isinstance(payload, CorruptPayload):
        blocks = ["**Unreadable payload**\n\n" + _fenced(without_hashes(payload.text))]
    else:
        blocks = [_part(part) for part in transcripts.parts(dialect, payload)]
    return "\n" + "\n\n".join([_heading(row, name), *filter(None, blocks)]) + "\n"


def _heading(row: Row, agent: str) -> str:
    place = f"{row['message_id']}"
    if row["branch"]:
        place += f" of branch {row['branch']}"
    words = [place, _inline(row["role"] or "message"), _inline(agent), _time(row["created_at"])]
    heading = "## " + " · ".join(words)
    notes = []
    if row["redacted_at"] is not None:
        notes.append(f"redacted {_time(row['redacted_at'])}")
    if row["input_tokens"] is not None or row["output_tokens"] is not None:
        notes.append(f"tokens {row['input_tokens'] or 0} in, {row['output_tokens'] or 0} out")
    if row["latency_ms"] is not None:
        notes.append(f"{row['latency_ms']} ms")
    return f"{heading}\n\n*{'; '.join(notes)}*" if notes else heading


def _part(part: Part) -> str:
    if part.kind is PartKind.TEXT:
        return _quoted(part.text)
    if part.kind is PartKind.REASONING:
        return "**Reasoning**\n\n" + _quoted(part.text or f"(encrypted, {_size(part)})")
    if part.kind is PartKind.TOOL_CALL:
        return f"**Tool call** {_named(part)}\n\n" + _fenced_value(part.data)
    if part.kind is PartKind.TOOL_RESULT:
        return _result(part)
    if part.kind in (PartKind.IMAGE, PartKind.DOCUMENT):
        return _media(part)
    return "**Unknown content**\n\n" + _fenced_value(part.data)


def _result(part: Part) -> str:
    blocks = [f"**Tool result** {_named(part)}".rstrip()]
    contents = part.parts or (part,)
    for content in contents:
        if content.kind in (PartKind.IMAGE, PartKind.DOCUMENT):
            blocks.append(_media(content))
        elif content.text:
            blocks.append(_fenced(content.text))
        elif content.data is not None:
            blocks.append(_fenced_value(content.data))
    told = any(content.data is not None for content in contents)
    if part.parts and part.data is not None and not told:
        blocks.append(_fenced_value(part.data))
    return "\n\n".join(blocks)


def _media(part: Part) -> str:
    label = "Image" if part.kind is PartKind.IMAGE else "Document"
    facts = [part.name, part.media_type or "unknown type", _size(part), part.url]
    line = f"**{label}** " + ", ".join(_inline(fact) for fact in facts if fact)
    return f"{line}\n\n{_quoted(part.text)}" if part.text else line


def _named(part: Part) -> str:
    facts = [part.name, part.call_id and f"({part.call_id})", part.status]
    return " ".join(_inline(fact) for fact in facts if fact)


def _size(part: Part) -> str:
    return "" if part.size is None else f"{part.size} bytes"


def _time(moment: datetime) -> str:
    if is_aware(moment):
        return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def _inline(text: str) -> str:
    """Writes foreign text within a line of ours."""
    line = " ".join(displayable(text).split())
    return _SPECIAL.sub(r"\\\g<0>", line)


def _quoted(text: str) -> str:
    """Writes foreign text as a quote, in which its Markdown works."""
    return _behind(_HTML.sub(r"\1\\<", displayable(text)))


def _fenced(text: str, language: str = "text") -> str:
    """Writes foreign text as a quoted block in which nothing has a meaning."""
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return _behind(f"{fence}{language}\n{displayable(text)}\n{fence}")


def _behind(text: str) -> str:
    # Of what splits lines, Markdown knows only three; editors and people know all of them.
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _fenced_value(value: Any) -> str:
    if isinstance(value, str):
        return _fenced(value)
    try:
        text = json.dumps(value, ensure_ascii=False, indent=2, default=_stand_in)
    except (ValueError, RecursionError):
        # An integer that this Python may not write, or lists that nest deeper than it follows.
        return "*(too large to be written for people; it is in the JSON Lines)*"
    return _fenced(text, "json")


def _stand_in(value: Any) -> str:
    """Mentions what JSON has no words for."""
    if isinstance(value, bytes | bytearray | memoryview):
        return f"({len(value)} bytes)"
    if isinstance(value, BlobRef):
        return f"({value.size} bytes)"
    return f"({type(value).__name__})"
