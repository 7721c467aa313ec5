"""No line and no binary of a file fills the memory."""

from __future__ import annotations

import base64
import gzip
import hashlib
import tracemalloc

import pytest

from django_agent_sessions.interchange import JsonLines, import_sessions
from django_agent_sessions.interchange.sources import Skipped, SourceSession
from django_agent_sessions.models import SessionMessage

from .files import changed, export, forget, lines, reasons, write

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("prefix", [None, "", "data:image/png;base64,"])
def test_one_binary_that_is_named_very_often_does_not_fill_the_memory(
    store, agent, file, settings, stored, prefix
):
    settings.STORAGES = {**settings.STORAGES, "blobs": settings.STORAGES["default"]}
    settings.AGENT_SESSIONS = {"MAX_PAYLOAD_BYTES": 4_000_000}
    if stored:
        settings.AGENT_SESSIONS = {**settings.AGENT_SESSIONS, "BLOB_STORAGE": "blobs"}
    store.append_many(agent, [{"content": "a"}, {"content": "b"}])
    [line] = lines(export(file))
    image = b"\x89PNG" + bytes(1_000_000)
    sha256 = hashlib.sha256(image).hexdigest()
    reference = {"sha256": sha256, "size": 1, **({} if prefix is None else {"prefix": prefix})}
    changed(line, "agents.0.messages.0.message", {"content": [{"$blob": reference}] * 200})
    line["blobs"] = [{"sha256": sha256, "data": {"$bytes": base64.b64encode(image).decode()}}]
    forget()
    source = write(file, line)

    tracemalloc.start()
    [(place, reason)] = reasons(import_sessions(source))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 32 * 1024 * 1024
    assert place.endswith("message 0")
    assert "together are larger than MAX_PAYLOAD_BYTES" in reason
    assert SessionMessage.objects.get().message == {"content": "b"}


@pytest.mark.parametrize("ending", [b"\n", b""])
def test_a_line_that_would_fill_the_memory_is_skipped_without_being_in_it(rich, file, ending):
    text = export(file).encode()
    limit = max(len(line) for line in text.splitlines(keepends=True))
    packed = file.with_suffix(".jsonl.gz")
    long = b" " * 64 * 1024 * 1024
    with gzip.open(packed, "wb", compresslevel=1) as written:
        for part in (text, long, ending or b"\n", text if ending else long):
            written.write(part)
    del long
    forget()

    tracemalloc.start()
    report = import_sessions(JsonLines(packed, max_line_bytes=limit))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 16 * 1024 * 1024
    assert [skipped.place for skipped in report.skipped] == (
        ["line 3"] if ending else ["line 3", "line 4"]
    )
    assert f"it has more than {limit} bytes" in str(report)
    assert report.made == 2
    # One byte too many, and the next line is there.
    first, second = JsonLines(file, max_line_bytes=limit - 1).sessions()
    assert isinstance(first, Skipped)
    assert isinstance(second, SourceSession)
    assert second.session_id == "empty"
