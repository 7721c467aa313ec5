"""Reading of the JSON Lines that :mod:`.jsonl` writes.

A file is untrusted: the type of each value is checked, and an invalid line is reported with its
number and does not affect other lines.
"""

from __future__ import annotations

import codecs
import gzip
import os
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from django_agent_sessions.content import exact_json
from django_agent_sessions.content.blob_refs import references
from django_agent_sessions.exceptions import ConfigurationError, PayloadError
from django_agent_sessions.models import Branch
from django_agent_sessions.models.fields import decode_payload
from django_agent_sessions.store.importing import CACHE_COLUMNS, COUNT_COLUMNS
from django_agent_sessions.values.records import AgentState

from .feedback_import import read_feedback
from .jsonl_blobs import LineBinaries, blob_directory, with_binaries
from .jsonl_export import AGENT_PAYLOADS, JSONL_FORMAT, VERSION
from .jsonl_values import InvalidValueError, as_dict, as_list, as_time, as_uuid, check_word
from .review_import import read_review
from .sources import (
    Skipped,
    SourceAgent,
    SourceBranch,
    SourceMessage,
    SourceMultiAgent,
    SourceSession,
)
from .untrusted import MAX_INTEGER, excess_values, valid_count

STDIN = "-"
"""The path that means the standard input."""

MAX_LINE_BYTES = 128 * 1024 * 1024
"""The default limit of a line. Reading one takes up to four times as much memory."""

_SHORTER = "increase the limit, or export the sessions with their binaries in a directory"
_TOO_DEEP = "it is nested too deeply"
_LOST = (
    "one of its binaries is missing from the file or damaged; the message is imported with a text "
    "instead"
)
_PIECE = 1024 * 1024
_HEAD_BYTES = 1024


class JsonLines:
    """Sessions in a JSON Lines file; one line is in memory at a time.

    Args:
        path: The file, compressed with gzip if its name ends with ``.gz``; ``-`` is the standard
            input.
        beside: The directory of the large binaries that are not in the file; by default the file's
            name with the suffix ``.blobs``.
        max_line_bytes: The limit of an uncompressed line, 128 MiB by default; reading one takes up
            to four times as much memory. A line that is longer, or that has more than one JSON
            value for each 64 of these bytes, is skipped and reported without being parsed.

    Raises:
        ConfigurationError: The file does not exist, or is not a regular file.
    """

    kind = "jsonl"

    def __init__(
        self,
        path: str | Path,
        *,
        beside: Path | None = None,
        max_line_bytes: int = MAX_LINE_BYTES,
    ) -> None:
        self._max_line_bytes = max(1, max_line_bytes)
        self._path = str(path)
        self._beside = blob_directory(path) if beside is None else beside.resolve()
        if self._path == STDIN or Path(self._path).is_file():
            return
        if os.path.lexists(self._path):
            raise ConfigurationError(
                f"{self._path} is not a regular file: pass - and send it to the standard input"
            )
        raise ConfigurationError(f"file {self._path} does not exist")

    def sessions(self) -> Iterator[SourceSession | Skipped]:
        """Yield the sessions, and the lines that cannot be read."""
        number = 0
        try:
            with self._open() as file:
                for number, line in enumerate(self._lines(file), 1):
                    if number == 1 and line is not None and _is_binary(line):
                        name = "the standard input" if self._path == STDIN else self._path
                        raise ConfigurationError(f"{name} is not a JSON Lines file")
                    if line is None:
                        yield Skipped(
                            f"line {number}",
                            f"it has more than {self._max_line_bytes} bytes: {_SHORTER}",
                        )
                    elif most := excess_values(line, self._max_line_bytes):
                        yield Skipped(
                            f"line {number}",
                            f"it has more than {most} values, which would fill the memory: "
                            "increase the limit of a line",
                        )
                    elif line.strip():
                        yield _session(line, f"line {number}", self._beside)
        except (OSError, EOFError, zlib.error) as error:
            # gzip raises EOFError for a truncated file.
            yield Skipped(f"after line {number}", f"the file cannot be read: {_error_text(error)}")

    def count(self) -> int | None:
        """Return the number of lines of an uncompressed file, else None."""
        if self._path == STDIN or self._path.endswith(".gz"):
            return None
        with open(self._path, "rb") as file:
            return sum(piece.count(b"\n") for piece in iter(lambda: file.read(_PIECE), b""))

    def _lines(self, file: BinaryIO) -> Iterator[bytes | None]:
        """Yield the lines, and None for one above the limit."""
        while line := file.readline(self._max_line_bytes + 1):
            if len(line) <= self._max_line_bytes:
                yield line
                continue
            ended = line.endswith(b"\n")
            del line
            while not ended:
                rest = file.readline(_PIECE)
                ended = not rest or rest.endswith(b"\n")
            yield None

    def _open(self) -> AbstractContextManager[BinaryIO]:
        if self._path == STDIN:
            return nullcontext(sys.stdin.buffer)
        if self._path.endswith(".gz"):
            return gzip.open(self._path, "rb")  # type: ignore[return-value] # it reads bytes
        return open(self._path, "rb")


def _is_binary(line: bytes) -> bool:
    """Return whether the first line shows that the file is not text."""
    beginning = line[:_HEAD_BYTES]
    try:
        # Incremental, because the last character may be incomplete.
        codecs.getincrementaldecoder("utf-8")().decode(beginning)
    except UnicodeDecodeError:
        return True
    return b"\0" in beginning


def _session(data: bytes, place: str, beside: Path | None) -> SourceSession | Skipped:
    try:
        line = exact_json.loads(data.decode())
    except (ValueError, MemoryError):
        # Without the text of the error, which contains content.
        return Skipped(place, "it is not JSON")
    if isinstance(line, dict) and isinstance(line.get("problems"), list):
        return Skipped(place, "it names sessions that the export does not contain, or only in part")
    if not isinstance(line, dict) or line.get("format") != JSONL_FORMAT:
        return Skipped(place, f"it is not a session in the format {JSONL_FORMAT}")
    version = line.get("version")
    if type(version) is int and version > VERSION:
        raise ConfigurationError(
            f"{place} is version {version} of the format; this release of django-agent-sessions "
            f"reads up to version {VERSION}: upgrade django-agent-sessions, then import again"
        )
    try:
        if version != VERSION:
            raise InvalidValueError("its version is invalid")
        return _read(line, place, beside)
    except InvalidValueError as error:
        return Skipped(place, str(error))
    except RecursionError:
        return Skipped(place, _TOO_DEEP)


def _read(line: Mapping[str, Any], place: str, beside: Path | None) -> SourceSession:
    head = as_dict(line.get("session"), "its session")
    session_id = head.get("session_id")
    if not isinstance(session_id, str):
        raise InvalidValueError("its session has no session_id")
    columns = {
        **head,
        "id": as_uuid(head, "id"),
        "last_activity_at": as_time(head, "last_activity_at"),
        "archived_at": as_time(head, "archived_at"),
        "expires_at": as_time(head, "expires_at"),
    }
    # The directory has a folder per session.
    blobs = LineBinaries(line.get("blobs"), beside, str(columns["id"] or ""))
    for name in ("namespace", "scope", "title", "session_type"):
        if not isinstance(head.get(name, ""), str):
            raise InvalidValueError(f"the {name} of its session is not a string")
    check_word(head, "session_type")
    if not isinstance(head.get("external_id"), str | None):
        raise InvalidValueError("the external_id of its session is not a string")
    if not isinstance(head.get("metadata", {}), dict):
        raise InvalidValueError("the metadata of its session is not an object")
    agents = as_list(line, "agents")
    session = SourceSession(
        session_id=session_id,
        agents=[_agent(as_dict(a, "an agent"), place, blobs) for a in agents],
        multi_agents=[
            _multi_agent(as_dict(a, "an orchestrator")) for a in as_list(line, "multi_agents")
        ],
        created_at=as_time(head, "created_at"),
        updated_at=as_time(head, "updated_at"),
        columns=columns,
    )
    # After the agents were checked.
    review, skipped = read_review(line, place)
    return replace(session, review=review, skipped=skipped)


def _agent(row: Mapping[str, Any], place: str, blobs: Mapping[str, bytes]) -> SourceAgent:
    agent_id, dialect, messages = row.get("agent_id"), row.get("dialect"), as_list(row, "messages")
    if not isinstance(agent_id, str) or not isinstance(dialect, str) or len(dialect) > 32:
        raise InvalidValueError("an agent has no agent_id or no dialect")
    main_name = row.get("main_name")
    if not isinstance(main_name, str | None):
        raise InvalidValueError("the main_name of an agent is not a string")
    check_word(row, "dialect")
    empty = AgentState()
    state = {
        name: _payload(row, name) if name in row else getattr(empty, name)
        for name in AGENT_PAYLOADS
    }
    return SourceAgent(
        agent_id=agent_id,
        dialect=dialect,
        messages=_messages(messages, f"{place}, agent {agent_id!r}", dialect, blobs),
        data=AgentState(**state),
        created_at=as_time(row, "created_at"),
        updated_at=as_time(row, "updated_at"),
        columns={"id": as_uuid(row, "id"), "main_name": main_name},
        branches=[_branch(as_dict(b, "a branch")) for b in as_list(row, "branches")],
    )


def _branch(row: Mapping[str, Any]) -> SourceBranch:
    number, name = row.get("number"), row.get("name")
    if type(number) is not int or not 0 < number <= MAX_INTEGER or not isinstance(name, str):
        raise InvalidValueError("a branch has no number or no name")
    return SourceBranch(
        number,
        name,
        as_time(row, "created_at"),
        # A kind of a later release is none that is known here.
        kind=row["kind"] if row.get("kind") in Branch.Kind.values else "",
        parent=valid_count(row.get("parent")),
        start=valid_count(row.get("start")),
    )


def _messages(
    rows: Sequence[Any], place: str, dialect: str, blobs: Mapping[str, bytes]
) -> Iterator[SourceMessage | Skipped]:
    # A message does not record that it has copies on other branches.
    branched = any(isinstance(row, dict) and row.get("branch") for row in rows)
    for number, row in enumerate(rows):
        where = f"{place}, message {number}"
        lost: set[str] = set()
        try:
            found = _message(as_dict(row, "it"), dialect, blobs, lost, branched=branched)
        except InvalidValueError as error:
            yield Skipped(where, str(error))
        except RecursionError:
            yield Skipped(where, _TOO_DEEP)
        else:
            feedback, skipped = read_feedback(row, where)
            if lost:
                skipped.append(Skipped(where, _LOST))
            # Not yielded separately, because the import's progress counts the yielded items.
            yield replace(found, feedback=feedback, skipped=skipped)


def _message(
    row: Mapping[str, Any],
    dialect: str,
    blobs: Mapping[str, bytes],
    lost: set[str],
    *,
    branched: bool,
) -> SourceMessage:
    if "message" not in row:
        raise InvalidValueError("it has no message")
    current = _message_payload(row, "message", dialect, blobs, lost)
    redacted = row.get("redacted") is True
    branch, position = row.get("branch", 0), row.get("message_id")
    if type(branch) is not int or type(position) is not int:
        raise InvalidValueError("its branch or message_id is not an integer")
    if not isinstance(row.get("external_id"), str | None):
        raise InvalidValueError("its external_id is not a string")
    check_word(row, "author")
    run = as_uuid(row, "run_id")
    shared = as_uuid(row, "source") or as_uuid(row, "id") if branched else None
    return SourceMessage(
        payload=current,
        created_at=as_time(row, "created_at"),
        updated_at=as_time(row, "updated_at"),
        redact_message=current if redacted else None,
        branch=branch,
        run=str(run) if run else "",
        shared=str(shared) if shared else "",
        columns={
            "id": as_uuid(row, "id"),
            "message_id": position,
            "revision": row.get("revision"),
            "model": row.get("model", ""),
            "external_id": row.get("external_id"),
            "author": row.get("author", ""),
            "has_error": row.get("has_error"),
            "redacted_at": as_time(row, "redacted_at"),
            "redaction": as_uuid(row, "redaction"),
            **_figures(row),
        },
    )


def _figures(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a message; without those of a cache, it has none."""
    known = {name: row[name] for name in COUNT_COLUMNS if name in row}
    return {**dict.fromkeys(CACHE_COLUMNS), **known} if known else {}


def _multi_agent(row: Mapping[str, Any]) -> SourceMultiAgent:
    name, kind = row.get("multi_agent_id"), row.get("kind", "")
    if not isinstance(name, str) or not isinstance(kind, str):
        raise InvalidValueError("an orchestrator has no multi_agent_id or no kind")
    check_word(row, "kind")
    return SourceMultiAgent(
        multi_agent_id=name,
        kind=kind,
        state=_payload(row, "state") if "state" in row else {},
        created_at=as_time(row, "created_at"),
        updated_at=as_time(row, "updated_at"),
        columns={"id": as_uuid(row, "id")},
        has_transcript=True,
    )


def _message_payload(
    row: Mapping[str, Any], name: str, dialect: str, blobs: Mapping[str, bytes], lost: set[str]
) -> Any:
    try:
        return with_binaries(_value(row, name), blobs, dialect, lost)
    except PayloadError as error:
        raise InvalidValueError(str(error)) from None


def _payload(row: Mapping[str, Any], name: str) -> Any:
    value = _value(row, name)
    if next(references(value), None) is not None:
        raise InvalidValueError(
            f"its {name} refers to a binary, but only messages may contain binaries"
        )
    return value


def _value(row: Mapping[str, Any], name: str) -> Any:
    corrupt = row.get("corrupt")
    if isinstance(corrupt, dict) and isinstance(corrupt.get(name), str):
        # It may be readable after all.
        return decode_payload(corrupt[name])
    return row[name]


def _error_text(error: Exception) -> str:
    return getattr(error, "strerror", None) or type(error).__name__
