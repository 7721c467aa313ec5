"""A file that is missing, broken or too new is told, and no line that can be read is hidden."""

from __future__ import annotations

import gzip

import pytest

from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.interchange import JsonLines, import_sessions
from django_agent_sessions.models import Session

from .files import export, forget, lines, rows, write

pytestmark = pytest.mark.django_db


def test_a_line_that_is_none_is_reported_with_its_number_and_hides_no_other(rich, file):
    text = export(file)
    before = rows()
    forget()
    first, second = text.encode().splitlines(keepends=True)
    odd = [
        b"plantedsecret\n",
        b"\n",
        b'{"format": "another"}\n',
        b'"django-agent-sessions"\n',
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b'{"format": "django-agent-sessions", "version": "1"}\n',
        b'{"format": "django-agent-sessions", "version": 1, "session": {"session_id": 1}}\n',
    ]
    # And the last one ends in the middle, as on a full disk.
    file.write_bytes(first + b"".join(odd) + second + first[:100])

    report = import_sessions(JsonLines(file))

    assert [skipped.place for skipped in report.skipped] == [
        f"line {number}" for number in (2, 4, 5, 6, 7, 8, 9, 11)
    ]
    assert "plantedsecret" not in str(report)
    assert report.made == 2
    assert rows() == before


def test_a_later_version_is_refused_before_anything_of_it_is_written(rich, file):
    one, other = lines(export(file))
    forget()

    with pytest.raises(
        ConfigurationError, match=r"^line 1 is version 2 .* reads up to version 1: upgrade"
    ):
        import_sessions(write(file, {**one, "version": 2}, other))

    assert not Session.objects.exists()


def test_a_compressed_file_that_ends_too_early_is_reported(rich, file):
    packed = file.with_suffix(".jsonl.gz")
    packed.write_bytes(gzip.compress(export(file).encode())[:-20])
    forget()

    [skipped] = import_sessions(JsonLines(packed)).skipped

    assert "the file cannot be read" in skipped.reason


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ConfigurationError, match="does not exist"):
        JsonLines(tmp_path / "none.jsonl")


@pytest.mark.parametrize(
    "data",
    [
        b"SQLite format 3\0 and so on\n\n\n",
        gzip.compress(b"not called .gz", mtime=0),
        b"\x89PNG\r\n",
    ],
)
def test_a_file_that_is_no_text_is_refused_at_its_beginning(file, data):
    file.write_bytes(data)

    with pytest.raises(ConfigurationError, match=r"is not a JSON Lines file$"):
        import_sessions(JsonLines(file))
