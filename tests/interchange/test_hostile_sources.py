"""A source that was made to harm its reader ends, fits into the memory, and opens nothing else."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import sqlite3
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import FileSystemStorage

from django_agent_sessions.exceptions import AgentSessionsError, ConfigurationError
from django_agent_sessions.interchange import JsonLines, import_sessions
from django_agent_sessions.interchange.jsonl_export import JSONL_FORMAT, VERSION
from django_agent_sessions.interchange.openai_advanced import OpenAIAdvancedSQLiteSource
from django_agent_sessions.interchange.openai_sources import (
    OpenAIDjangoSessionsSource,
    OpenAISQLAlchemySource,
    OpenAISQLiteSource,
)
from django_agent_sessions.interchange.sources import Skipped, SourceSession
from django_agent_sessions.interchange.strands_files import StrandsFiles
from django_agent_sessions.interchange.strands_snapshots import StrandsSnapshots
from django_agent_sessions.models import Session, SessionMessage

KEY = "018f3c1e-7b7a-7000-8000-000000000001"
CONTENT = b"\x89PNG" + bytes(100)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"


def peak_of(work: Callable[[], Any]) -> tuple[Any, int]:
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# --- JSON Lines ----------------------------------------------------------------------------------


def line(**message: Any) -> dict[str, Any]:
    reference = {"$blob": {"sha256": SHA256, "size": len(CONTENT)}}
    return {
        "format": JSONL_FORMAT,
        "version": VERSION,
        "session": {"session_id": "hostile", "id": KEY},
        "agents": [
            {
                "agent_id": "a",
                "dialect": "openai",
                "messages": [{"message": {"content": [reference]}, "message_id": 0, **message}],
            }
        ],
        "blobs": [{"sha256": SHA256, "size": len(CONTENT), "file": True}],
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "x.jsonl").write_text(json.dumps(line()))
    made = tmp_path / "x.blobs" / KEY
    made.mkdir(parents=True)
    return made


def reasons(path: Path) -> list[str]:
    report = import_sessions(JsonLines(path))
    return [skipped.reason for skipped in report.skipped]


@pytest.mark.django_db
def test_a_binary_beside_a_file_is_read(folder: Path) -> None:
    (folder / SHA256).write_bytes(CONTENT)
    assert reasons(folder.parents[1] / "x.jsonl") == []
    assert SessionMessage.objects.get().message == {"content": [CONTENT]}


@pytest.mark.django_db
@pytest.mark.parametrize("kind", ["device", "fifo", "file", "folder", "root", "directory"])
def test_what_is_no_regular_file_beside_a_file_is_not_opened(
    folder: Path, tmp_path: Path, kind: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / SHA256).write_bytes(CONTENT)
    if kind == "device":
        (folder / SHA256).symlink_to("/dev/zero")
    elif kind == "fifo":
        os.mkfifo(folder / SHA256)
    elif kind == "file":
        (folder / SHA256).symlink_to(elsewhere / SHA256)
    elif kind == "folder":
        folder.rmdir()
        folder.symlink_to(elsewhere)
    elif kind == "root":
        (elsewhere / SHA256).rename(folder / SHA256)
        folder.parent.rename(tmp_path / "moved")
        folder.parent.symlink_to(tmp_path / "moved")
    else:
        (folder / SHA256).mkdir()
    [reason] = reasons(tmp_path / "x.jsonl")
    assert "missing from the file or damaged" in reason
    # The message is there, with a text in place of its binary.
    assert CONTENT not in SessionMessage.objects.get().message["content"]


@pytest.mark.django_db
def test_a_binary_beside_a_file_is_read_no_further_than_is_accepted(
    folder: Path, settings: Any
) -> None:
    settings.AGENT_SESSIONS = {"MAX_PAYLOAD_BYTES": 1_000_000, "MAX_BLOB_BYTES": 1_000_000}
    with (folder / SHA256).open("wb") as file:
        file.truncate(2**40)
    found, peak = peak_of(lambda: reasons(folder.parents[1] / "x.jsonl"))
    assert "missing from the file or damaged" in found[0]
    assert peak < 8 * 1024 * 1024


def test_a_file_that_is_no_regular_one_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.jsonl")
    with pytest.raises(ConfigurationError, match=r"not a regular file.*standard input"):
        JsonLines(tmp_path / "x.jsonl")


@pytest.mark.parametrize("piece", [b"[],", b"{},", b'{"a":1},', b"1,", b'"",'])
def test_a_line_of_very_many_values_is_skipped_without_being_parsed(
    tmp_path: Path, piece: bytes
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"[" + piece * (4 * 1024 * 1024 // len(piece)) + b"0]\n" + _small())
    found, peak = peak_of(
        lambda: list(JsonLines(path, max_line_bytes=4 * 1024 * 1024 + 10).sessions())
    )
    assert peak < 24 * 1024 * 1024
    assert isinstance(found[0], Skipped)
    assert "has more than 65536 values" in found[0].reason
    assert isinstance(found[1], SourceSession)


def test_texts_that_look_like_very_many_values_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    text = '[],{"a":1},\\"' * 100_000
    document = line(message={"role": "user", "content": text})
    path.write_text(json.dumps(document))
    [found] = JsonLines(path, max_line_bytes=4 * 1024 * 1024).sessions()
    assert isinstance(found, SourceSession)


def test_the_default_limit_of_a_line_keeps_it_within_half_a_gigabyte(tmp_path: Path) -> None:
    # A line of 512 MiB was read by default, which took more than twice as much.
    path = tmp_path / "x.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(129):
            file.write(b" " * 1024 * 1024)
    [found] = JsonLines(path).sessions()
    assert isinstance(found, Skipped)
    assert "it has more than 134217728 bytes" in found.reason


def _small() -> bytes:
    return json.dumps(line(message={"role": "user", "content": "hi"})).encode()


# --- the file layouts of Strands -----------------------------------------------------------------

_MESSAGES = "session_s/agents/agent_a/messages"


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / _MESSAGES).mkdir(parents=True)
    (root / "session_s" / "session.json").write_text('{"session_id": "s"}')
    (root / "session_s/agents/agent_a/agent.json").write_text("{}")
    (root / "session_s/multi_agents").mkdir()
    return root


def _message(text: str) -> str:
    return json.dumps({"message": {"role": "user", "content": [{"text": text}]}})


def strands_texts(root: Path) -> tuple[list[str], list[str]]:
    """Return the texts of messages, and the reasons of what was skipped."""
    texts, skipped = [], []
    for found in StrandsFiles(FileSystemStorage(root)).sessions():
        if isinstance(found, Skipped):
            skipped.append(found.reason)
            continue
        skipped += [each.reason for each in found.skipped]
        for agent in found.agents:
            for message in agent.messages:
                if isinstance(message, Skipped):
                    skipped.append(message.reason)
                else:
                    texts.append(message.payload["content"][0]["text"])
    return texts, skipped


def test_a_fifo_among_messages_is_refused_and_not_waited_for(layout: Path) -> None:
    os.mkfifo(layout / _MESSAGES / "message_0.json")
    (layout / _MESSAGES / "message_1.json").write_text(_message("kept"))
    texts, skipped = strands_texts(layout)
    assert texts == ["kept"]
    assert "is not a regular file" in skipped[0]


@pytest.mark.parametrize("part", [_MESSAGES, "session_s/agents/agent_a", "session_s/agents"])
def test_a_folder_that_is_a_link_is_neither_listed_nor_read(
    layout: Path, tmp_path: Path, part: str
) -> None:
    (layout / _MESSAGES / "message_0.json").write_text(_message("elsewhere"))
    (layout / _MESSAGES / "private name").write_text("")
    (layout / part).rename(tmp_path / "elsewhere")
    (layout / part).symlink_to(tmp_path / "elsewhere")
    texts, skipped = strands_texts(layout)
    assert texts == []
    assert any("symbolic link" in reason for reason in skipped)
    assert "private name" not in str(skipped)


def test_a_session_that_is_a_link_is_not_read(layout: Path, tmp_path: Path) -> None:
    (layout / _MESSAGES / "message_0.json").write_text(_message("elsewhere"))
    (layout / "session_s").rename(tmp_path / "elsewhere")
    (layout / "session_s").symlink_to(tmp_path / "elsewhere")
    texts, skipped = strands_texts(layout)
    assert texts == []
    assert any("symbolic link" in reason for reason in skipped)


def test_a_document_is_read_no_further_than_is_accepted(layout: Path, settings: Any) -> None:
    settings.AGENT_SESSIONS = {"MAX_PAYLOAD_BYTES": 1_000_000}
    with (layout / _MESSAGES / "message_0.json").open("wb") as file:
        file.truncate(2**40)
    (layout / _MESSAGES / "message_1.json").write_text(_message("kept"))
    (texts, skipped), peak = peak_of(lambda: strands_texts(layout))
    assert texts == ["kept"]
    assert "MAX_PAYLOAD_BYTES" in skipped[0]
    assert peak < 16 * 1024 * 1024


def test_a_snapshot_of_very_many_values_is_skipped_without_being_parsed(
    tmp_path: Path, settings: Any
) -> None:
    settings.AGENT_SESSIONS = {"MAX_PAYLOAD_BYTES": 4_000_000}
    folder = tmp_path / "session/s/scopes/agent/a/snapshots"
    folder.mkdir(parents=True)
    (folder / "snapshot_latest.json").write_bytes(b'{"a":[' + b"[]," * 1_000_000 + b"0]}")
    source = StrandsSnapshots(FileSystemStorage(tmp_path))
    found, peak = peak_of(lambda: list(source.sessions()))
    assert "values" in str(found)
    assert peak < 24 * 1024 * 1024


# --- the databases of OpenAI's sessions ----------------------------------------------------------

_TABLES = """
CREATE TABLE agent_sessions (session_id TEXT PRIMARY KEY, created_at TEXT, updated_at TEXT);
CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id TEXT, message_data TEXT,
    created_at TEXT);
CREATE TABLE message_structure (id INTEGER PRIMARY KEY, session_id TEXT, message_id INTEGER,
    branch_id TEXT, sequence_number INTEGER, message_type TEXT);
INSERT INTO agent_sessions VALUES ('s', '2024-05-01', '2024-05-01');
"""


def database(path: Path, *statements: str) -> Path:
    connection = sqlite3.connect(path)
    connection.executescript(_TABLES)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


def of_url(path: Path) -> OpenAISQLAlchemySource:
    return OpenAISQLAlchemySource(f"sqlite:///{path}")


_SOURCES = [OpenAISQLiteSource, OpenAIAdvancedSQLiteSource, of_url]


@pytest.mark.parametrize("source", _SOURCES)
@pytest.mark.parametrize("table", ["agent_sessions", "agent_messages"])
def test_a_view_in_place_of_a_table_is_refused(source: Any, table: str, tmp_path: Path) -> None:
    path = database(
        tmp_path / "x.db",
        f"DROP TABLE {table}",
        f"CREATE VIEW {table} AS {ENDLESS} SELECT x AS id, CAST(x AS TEXT) AS session_id, '{{}}' "
        "AS message_data, '' AS created_at, '' AS updated_at FROM n",
    )
    with pytest.raises(ConfigurationError, match=f"'{table}' is a view"):
        list(source(path).sessions())


def test_a_view_in_place_of_the_table_of_branches_is_refused(tmp_path: Path) -> None:
    path = database(
        tmp_path / "x.db",
        "DROP TABLE message_structure",
        f"CREATE VIEW message_structure AS {ENDLESS} SELECT x AS id, 's' AS session_id, "
        "x AS message_id, 'main' AS branch_id, x AS sequence_number FROM n",
    )
    for source in (OpenAISQLiteSource, OpenAIAdvancedSQLiteSource):
        with pytest.raises(ConfigurationError, match="'message_structure' is a view"):
            list(source(path).sessions())


@pytest.mark.django_db
def test_a_view_of_the_projects_own_database_is_refused(transactional_db: Any) -> None:
    from django.db import connection

    columns = "1 AS id, 's' AS session_id, '{}' AS data, '' AS created_at, '' AS updated_at"
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE VIEW hostile_items AS SELECT {columns}")
        try:
            source = OpenAIDjangoSessionsSource(
                sessions_table="hostile_items", messages_table="hostile_items"
            )
            with pytest.raises(ConfigurationError, match="'hostile_items' is a view"):
                list(source.sessions())
        finally:
            cursor.execute("DROP VIEW hostile_items")


@pytest.mark.parametrize("source", _SOURCES)
def test_a_statement_that_takes_too_long_is_stopped(
    source: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = database(
        tmp_path / "x.db",
        f"INSERT INTO agent_sessions {ENDLESS} SELECT x, '', '' FROM n LIMIT 50000",
    )
    assert source(path).count() == 50_001
    limits = "django_agent_sessions.interchange.sqlite_limits"
    monkeypatch.setattr(f"{limits}.STATEMENT_SECONDS", 0.0)
    with pytest.raises(ConfigurationError, match=r"a statement took more than 0\.0 seconds"):
        source(path).count()


@pytest.mark.parametrize("source", _SOURCES)
def test_more_rows_than_fit_into_the_memory_are_refused(
    source: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = database(
        tmp_path / "x.db",
        f"INSERT INTO agent_sessions {ENDLESS} SELECT x, '', '' FROM n LIMIT 1000",
    )
    monkeypatch.setattr("django_agent_sessions.interchange.sqlite_limits.MAX_RESULT_ROWS", 1000)
    with pytest.raises(ConfigurationError, match="more than 1000 rows"):
        list(source(path).sessions())


@pytest.mark.parametrize("source", [OpenAISQLiteSource, of_url])
def test_a_value_that_a_column_makes_is_no_longer_than_is_accepted(
    source: Any, tmp_path: Path, settings: Any
) -> None:
    settings.AGENT_SESSIONS = {"MAX_PAYLOAD_BYTES": 1_000_000}
    path = database(
        tmp_path / "x.db",
        "DROP TABLE agent_messages",
        "CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id TEXT, base INTEGER, "
        "created_at TEXT, message_data BLOB AS (zeroblob(base)))",
        "INSERT INTO agent_messages (id, session_id, base) VALUES (1, 's', 900000000)",
    )

    def read() -> Any:
        found = []
        for session in source(path).sessions():
            assert isinstance(session, SourceSession)
            found += list(session.agents[0].messages)
        return found

    found, peak = peak_of(lambda: _outcome(read))
    # Computed columns are no columns of the SDK for the one, and too long for the other.
    assert "no table 'agent_messages' with message_data" in str(found) or "too big" in str(found)
    assert peak < 16 * 1024 * 1024


def test_items_that_are_large_together_are_not_in_memory_together(tmp_path: Path) -> None:
    text = json.dumps({"role": "user", "content": "x" * 8_000_000})
    path = database(tmp_path / "x.db")
    connection = sqlite3.connect(path)
    # Small ones first, after which very many are read at once.
    small = json.dumps({"role": "user", "content": "x"})
    rows = [small] * 30 + [text] * 30
    connection.executemany(
        "INSERT INTO agent_messages (session_id, message_data) VALUES ('s', ?)",
        [(row,) for row in rows],
    )
    connection.commit()
    connection.close()

    def read() -> list[int]:
        [session] = OpenAISQLiteSource(path).sessions()
        assert isinstance(session, SourceSession)
        return [
            len(message.payload["content"])
            for message in session.agents[0].messages
            if not isinstance(message, Skipped)
        ]

    found, peak = peak_of(read)
    assert found == [1] * 30 + [8_000_000] * 30
    assert peak < 100 * 1024 * 1024


def _outcome(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except AgentSessionsError as error:
        return error


@pytest.mark.django_db
def test_nothing_of_this_makes_a_session(tmp_path: Path) -> None:
    path = database(
        tmp_path / "x.db",
        "DROP TABLE agent_messages",
        f"CREATE VIEW agent_messages AS {ENDLESS} SELECT x AS id, 's' AS session_id, "
        "'{}' AS message_data, '' AS created_at FROM n",
    )
    with pytest.raises(ConfigurationError):
        import_sessions(OpenAISQLiteSource(path))
    assert not Session.objects.exists()
