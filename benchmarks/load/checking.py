"""What is in the database at the end, against what people were told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from io import StringIO

from django.core.management import CommandError, call_command
from django.db import connection

from django_agent_sessions.models import Session, SessionMessage

from .scripts import MAP, OPENAI, STRANDS, Conversation, Line


def faults(people: Mapping[int, Sequence[Conversation]]) -> Iterator[str]:
    """Find what is lost, doubled, misplaced or another user's, by the owners of conversations."""
    known = set()
    for owner, conversations in people.items():
        for conversation in conversations:
            known.add(conversation.id)
            yield from _of(conversation, owner)
    there = {str(key) for key in Session.objects.values_list("pk", flat=True)}
    if there != known:
        yield f"{len(there)} sessions are there, {len(known)} were begun"


def version() -> str:
    """Return the name and the version of the server or library."""
    server = connection.vendor == "postgresql"
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version" if server else "SELECT sqlite_version()")
        number = str(cursor.fetchone()[0]).split()[0]
    return f"{'PostgreSQL' if server else 'SQLite'} {number}"


def integrity() -> str:
    """Runs the app's own check, files of large binaries included."""
    output = StringIO()
    try:
        call_command("agent_sessions_check", blobs=True, stdout=output, stderr=output)
    except CommandError as error:
        return f"{error}: {output.getvalue()[:1000]}"
    return "clean"


def _of(conversation: Conversation, owner: int) -> Iterator[str]:
    session = Session.objects.filter(pk=conversation.id).first()
    if session is None:
        yield f"{conversation.id}: its session is gone"
        return
    if session.owner_id != owner:
        yield f"{conversation.id}: its session is of {session.owner_id}, not {owner}"
    rows = SessionMessage.objects.filter(session=session).order_by("message_id")
    found = list(rows.values_list("message_id", "role", "text"))
    if [number for number, *_ in found] != list(range(len(found))):
        yield f"{conversation.id}: positions {[number for number, *_ in found]}"
    stored = [(role, text.strip()) for _, role, text in found]
    expected = [row for line in conversation.lines for row in _rows(conversation.kind, line)]
    if stored != expected:
        at = next(
            (i for i, (a, b) in enumerate(zip(stored, expected, strict=False)) if a != b),
            min(len(stored), len(expected)),
        )
        yield (
            f"{conversation.id}: {len(stored)} messages in place of {len(expected)}; at {at}: "
            f"{stored[at : at + 2]} in place of {expected[at : at + 2]}"
        )
    if session.message_count != len(found):
        yield f"{conversation.id}: counted {session.message_count} of {len(found)} messages"


def _rows(kind: str, line: Line) -> Iterator[tuple[str, str]]:
    """The messages of a turn: their roles, and the words in them."""
    yield "user", line.read_texts
    if line.write_tool_call:
        yield "assistant", ""
        if kind == STRANDS:
            yield "user", line.answer
        else:
            yield "tool", "" if line.write_tool_call == MAP else line.answer
    if line.thought and kind == OPENAI:
        yield "assistant", ""
    yield "assistant", line.answer
