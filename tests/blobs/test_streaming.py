"""Parts of files of any storage, piece by piece."""

from __future__ import annotations

import os
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import FileSystemStorage, InMemoryStorage

from django_agent_sessions.blobs.file_storage import Pieces, stream_file, write_file
from tests.s3 import bucket_fixture  # noqa: F401 - a fixture

DATA = os.urandom(150_000)


class OddStorage(InMemoryStorage):
    """Has an error of its own for what is not there."""

    def _open(self, name: str, mode: str = "rb") -> Any:
        if not self.exists(name):
            raise OSError("gone")
        return super()._open(name, mode)  # type: ignore[misc] # not in the stubs


@pytest.fixture(params=["memory", "odd", "folder", "bucket", "gzip"])
def storage(request: pytest.FixtureRequest, tmp_path):
    if request.param in ("bucket", "gzip"):
        bucket = request.getfixturevalue("bucket")
        return bucket.make_storage(gzip=request.param == "gzip")
    kinds = {"memory": InMemoryStorage, "odd": OddStorage}
    if kind := kinds.get(request.param):
        return kind()
    return FileSystemStorage(location=tmp_path)


def test_a_part_of_a_file_is_read_in_pieces(storage):
    write_file(storage, "a/b", DATA)
    for start, stop in ((0, None), (0, 10), (70_000, 140_000), (149_999, None), (5, 999_999)):
        pieces = stream_file(storage, "a/b", start=start, stop=stop)
        assert pieces.size == len(DATA)
        read = list(pieces)
        assert b"".join(read) == DATA[start:stop]
        assert max(map(len, read)) <= 64 * 1024


def test_what_begins_behind_the_end_is_nothing_of_a_file_whose_size_is_told(storage):
    write_file(storage, "a", b"short")
    pieces = stream_file(storage, "a", start=100)
    assert pieces.size == 5
    assert list(pieces) == []


def test_a_file_that_is_missing_is_said_before_anything_is_read(storage):
    with pytest.raises(FileNotFoundError):
        stream_file(storage, "a")


# django-storages leaves its temporary file to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_compressed_object_is_read_as_what_it_was(bucket):
    storage = bucket.make_storage(gzip=True)
    storage.save("a.css", ContentFile(b"text " * 50_000))
    (found,) = bucket.found()
    assert bucket.client.head_object(Bucket=bucket.name, Key=found)["ContentEncoding"] == "gzip"
    pieces = stream_file(storage, "a.css", start=5, stop=14)
    assert (pieces.size, b"".join(pieces)) == (250_000, b"text text")


class Torn:
    """A file whose reading fails after its first piece."""

    def __init__(self) -> None:
        self.left = 1
        self.closed = False

    def read(self, size: int) -> bytes:
        self.left -= 1
        if self.left < 0:
            raise OSError("torn")
        return bytes(size)

    def close(self) -> None:
        self.closed = True


def test_a_file_that_fails_while_it_is_read_is_closed():
    file = Torn()
    pieces = Pieces(200_000, 200_000, file.read, file.close)
    with pytest.raises(OSError, match="torn"):
        list(pieces)
    assert file.closed


def test_a_part_that_nobody_reads_is_closed(tmp_path):
    storage = FileSystemStorage(location=tmp_path)
    write_file(storage, "a", DATA)
    pieces = stream_file(storage, "a")
    pieces.close()
    pieces.close()
    assert len(b"".join(pieces)) <= 64 * 1024
