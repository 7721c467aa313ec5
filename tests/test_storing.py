"""Whole files in storages of every kind: exact names, in parallel, at once or not at all."""

from __future__ import annotations

import gzip
import logging
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse  # type: ignore[import-untyped]
from django.core.exceptions import SuspiciousOperation
from django.core.files.base import ContentFile
from django.core.files.storage import FileSystemStorage, InMemoryStorage, default_storage
from storages.backends.s3 import S3Storage  # type: ignore[import-untyped]

from django_agent_sessions.storing import (
    create_file,
    delete_files,
    is_link,
    list_folder,
    make_folder,
    read_file,
    read_files,
    remove_folder,
    s3,
    write_file,
)

from .s3 import TestBucket, bucket_fixture  # noqa: F401 - a fixture


def _changed(content: Any) -> ContentFile:
    return ContentFile(bytes(byte ^ 13 for byte in content.read()))


class Rot13(FileSystemStorage):
    """A storage that changes what it keeps, as one that encrypts does."""

    def _open(self, name: str, mode: str = "rb") -> Any:
        with super()._open(name, mode) as file:  # type: ignore[misc] # not in the stubs
            return _changed(file)

    def _save(self, name: str, content: Any) -> Any:
        return super()._save(name, _changed(content))  # type: ignore[misc] # not in the stubs


class Lazy(InMemoryStorage):
    """A storage that notices only while reading, and has its own error, as Azure's does."""

    def _open(self, name: str, mode: str = "rb") -> Any:
        if not self.exists(name):
            raise LookupError("ResourceNotFound")
        return super()._open(name, mode)  # type: ignore[misc] # not in the stubs


@pytest.fixture(params=["disk", "memory", "lazy", "changing", "s3"])
def storage(request, tmp_path) -> Any:
    if request.param == "s3":
        return request.getfixturevalue("bucket").make_storage(location="some/where")
    kinds: dict[str, Any] = {
        "disk": lambda: FileSystemStorage(tmp_path),
        "memory": InMemoryStorage,
        "lazy": Lazy,
        "changing": lambda: Rot13(tmp_path),
    }
    return kinds[request.param]()


class TestEveryStorage:
    def test_a_file_comes_back_under_exactly_its_name(self, storage):
        write_file(storage, "a/b c/é.bin", b"\x00\xff")

        assert read_file(storage, "a/b c/é.bin") == b"\x00\xff"
        assert list_folder(storage, "a") == (["b c"], [])
        assert list_folder(storage, "a/b c") == ([], ["é.bin"])

    def test_a_file_is_replaced(self, storage):
        for data in (b"one", b"two"):
            write_file(storage, "a.json", data)

        assert read_file(storage, "a.json") == b"two"
        assert list_folder(storage, "") == ([], ["a.json"])

    def test_a_file_that_is_there_is_not_created_again(self, storage):
        create_file(storage, "a/b.json", b"one")

        with pytest.raises(FileExistsError):
            create_file(storage, "a/b.json", b"two")

        assert read_file(storage, "a/b.json") == b"one"
        assert list_folder(storage, "a") == ([], ["b.json"])

    def test_a_file_that_is_not_there_says_so(self, storage):
        with pytest.raises(FileNotFoundError):
            read_file(storage, "nothing")
        with pytest.raises(FileNotFoundError):
            read_file(storage, "no/thing")

    def test_many_are_read_in_order(self, storage):
        names = [f"many/{number}" for number in range(40)]
        for name in names[::2]:
            write_file(storage, name, name.encode())

        found = dict(read_files(storage, names))

        assert list(found) == names
        assert [found[name] for name in names[::2]] == [name.encode() for name in names[::2]]
        assert {type(found[name]) for name in names[1::2]} == {FileNotFoundError}
        assert list(read_files(storage, names[:1])) == [(names[0], names[0].encode())]
        assert list(read_files(storage, [])) == []

    def test_who_stops_reading_early_leaves_nothing_running(self, storage):
        names = [f"many/{number}" for number in range(40)]
        reading: Any = read_files(storage, names)
        next(reading)
        reading.close()

        ours = [t for t in threading.enumerate() if t.name.startswith("agent-sessions-files")]
        assert ours == []

    def test_files_are_deleted_and_those_that_are_not_there_are_fine(self, storage):
        for name in ("a/one", "a/two", "a/three"):
            write_file(storage, name, b"x")

        delete_files(storage, ["a/one", "a/two", "a/missing", "a/one"])
        delete_files(storage, ["a/missing"])
        delete_files(storage, [])

        assert list_folder(storage, "a") == ([], ["three"])

    def test_a_folder_that_is_not_there_is_empty(self, storage):
        assert list_folder(storage, "nowhere") == ([], [])

    @pytest.mark.parametrize("name", ["../outside", "a/../../outside"])
    def test_a_name_that_leads_out_is_refused(self, storage, name):
        for attempt in (
            lambda: write_file(storage, name, b"x"),
            lambda: create_file(storage, name, b"x"),
            lambda: read_file(storage, name),
            lambda: delete_files(storage, [name]),
            lambda: list_folder(storage, name),
        ):
            with pytest.raises(SuspiciousOperation):
                attempt()

    def test_an_error_of_one_file_keeps_no_other_from_being_deleted(self, storage):
        write_file(storage, "a", b"x")
        write_file(storage, "b", b"x")

        with pytest.raises(SuspiciousOperation):
            delete_files(storage, ["a", "../outside", "b"])

        assert list_folder(storage, "") == ([], [])


class TestOnAFileSystem:
    def test_modes_are_those_of_the_storage(self, tmp_path):
        storage = FileSystemStorage(
            tmp_path, file_permissions_mode=0o640, directory_permissions_mode=0o750
        )

        write_file(storage, "a/b/c", b"x")
        make_folder(storage, "d/e")

        modes = {
            str(found.relative_to(tmp_path)): stat.S_IMODE(found.stat().st_mode)
            for found in tmp_path.rglob("*")
        }
        assert modes == {"a": 0o750, "a/b": 0o750, "a/b/c": 0o640, "d": 0o750, "d/e": 0o750}

    def test_without_modes_they_are_what_the_umask_leaves(self, tmp_path, settings):
        settings.FILE_UPLOAD_PERMISSIONS = None
        umask = os.umask(0o077)
        try:
            write_file(FileSystemStorage(tmp_path), "a/b", b"x")
        finally:
            os.umask(umask)

        assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700
        assert stat.S_IMODE((tmp_path / "a/b").stat().st_mode) == 0o600

    def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(self, tmp_path, monkeypatch):
        storage = FileSystemStorage(tmp_path)
        write_file(storage, "a", b"old")

        def full(_descriptor: int) -> None:
            raise OSError("no space left on device")

        monkeypatch.setattr("os.fsync", full)
        for write in (write_file, create_file):
            with pytest.raises(OSError, match=r"no space|exists already"):
                write(storage, "a", b"new")

        assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]

    def test_of_many_that_create_one_file_one_succeeds(self, tmp_path):
        storage = FileSystemStorage(tmp_path)
        won: list[bytes] = []
        together = threading.Barrier(8)

        def create(data: bytes) -> None:
            together.wait()
            try:
                create_file(storage, "a/b", data)
            except FileExistsError:
                return
            won.append(data)

        threads = [
            threading.Thread(target=create, args=(str(number).encode(),)) for number in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert [read_file(storage, "a/b")] == won

    def test_who_is_a_moment_too_late_overwrites_nothing(self, tmp_path, monkeypatch):
        link = os.link

        def somebody_else_is_faster(made: str, path: str) -> None:
            Path(path).write_bytes(b"theirs")
            link(made, path)

        monkeypatch.setattr("os.link", somebody_else_is_faster)
        with pytest.raises(FileExistsError):
            create_file(FileSystemStorage(tmp_path), "a", b"ours")

        assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"theirs"]

    def test_a_file_is_created_where_there_are_no_hard_links(self, tmp_path, monkeypatch):
        def refuse(*_paths: str) -> None:
            raise PermissionError("no hard links here")

        monkeypatch.setattr("os.link", refuse)
        storage = FileSystemStorage(tmp_path)

        create_file(storage, "a", b"one")
        with pytest.raises(FileExistsError):
            create_file(storage, "a", b"two")

        assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"one"]

    def test_a_link_is_replaced_and_not_followed(self, tmp_path):
        storage = FileSystemStorage(tmp_path / "in")
        outside = tmp_path / "outside"
        outside.write_bytes(b"theirs")
        make_folder(storage, "")
        Path(storage.path("a")).symlink_to(outside)
        assert is_link(storage, "a")

        with pytest.raises(FileExistsError):
            create_file(storage, "a", b"ours")
        write_file(storage, "a", b"ours")

        assert outside.read_bytes() == b"theirs"
        assert not is_link(storage, "a")
        assert read_file(storage, "a") == b"ours"

    def test_a_folder_is_no_file(self, tmp_path):
        storage = FileSystemStorage(tmp_path)
        make_folder(storage, "a")
        make_folder(storage, "a")
        write_file(storage, "b", b"x")

        with pytest.raises(IsADirectoryError):
            read_file(storage, "a")
        assert list_folder(storage, "b") == ([], [])
        with pytest.raises(NotADirectoryError):
            write_file(storage, "b/c", b"x")

    def test_the_default_storage_is_what_it_stands_for(self, tmp_path, settings):
        settings.MEDIA_ROOT = tmp_path

        create_file(default_storage, "a", b"x")

        assert (tmp_path / "a").read_bytes() == b"x"
        with pytest.raises(FileExistsError):
            create_file(default_storage, "a", b"y")


class TestOtherStorages:
    def test_a_name_that_the_storage_changes_is_an_error_and_leaves_nothing(self):
        class Busy(InMemoryStorage):
            def save(self, name: Any, content: Any, max_length: Any = None) -> str:
                # Somebody else takes the name between the look and the writing.
                super().save(name, ContentFile(b"theirs"))
                return super().save(name, content, max_length)

        storage = Busy()

        with pytest.raises(FileExistsError):
            write_file(storage, "a", b"ours")

        assert list_folder(storage, "") == ([], ["a"])
        assert read_file(storage, "a") == b"theirs"

    def test_errors_pass_when_nobody_can_say_what_they_mean(self):
        class Down(InMemoryStorage):
            def _open(self, *args: Any) -> Any:
                raise ConnectionError("down")

            def exists(self, name: str) -> bool:
                raise ConnectionError("down")

        with pytest.raises(ConnectionError):
            read_file(Down(), "a")
        assert [type(found) for _, found in read_files(Down(), ["a", "b"])] == [ConnectionError] * 2

    def test_there_are_no_folders_to_make_and_no_links(self):
        storage = InMemoryStorage()

        make_folder(storage, "a")

        assert list_folder(storage, "") == ([], [])
        assert not is_link(storage, "a")


class TestInABucket:
    def test_each_file_is_one_request(self, bucket):
        names = [f"many/{number}" for number in range(30)]
        with bucket.requests() as sent:
            for name in names:
                write_file(bucket.storage, name, b"x")
            assert sent == [f"PUT {name}" for name in names]
            sent.clear()

            list(read_files(bucket.storage, names))
            read_file(bucket.storage, "many/0")

        assert sorted(sent) == sorted(f"GET {name}" for name in [*names, "many/0"])

    def test_a_storage_with_ways_of_its_own_is_used_through_them(self, bucket):
        class Rot13InABucket(S3Storage):  # type: ignore[misc] # has no types
            def _open(self, name: str, mode: str = "rb") -> Any:
                with super()._open(name, mode) as file:
                    return _changed(file)

            def _save(self, name: str, content: Any) -> Any:
                return super()._save(name, _changed(content))

        storage = bucket.make_storage(Rot13InABucket)
        for data in (b"one", b"two"):
            write_file(storage, "a", data)

        assert read_file(storage, "a") == b"two"
        assert read_file(bucket.storage, "a") == _changed(ContentFile(b"two")).read()

    def test_every_thread_has_the_same_client(self, bucket):
        made: list[int] = []
        write_file(bucket.storage, "a", b"x")

        class Watched(S3Storage):  # type: ignore[misc] # has no types
            def _create_session(self) -> Any:
                made.append(1)
                return super()._create_session()

        storage = bucket.make_storage(Watched)
        for _ in range(3):
            thread = threading.Thread(target=read_file, args=(storage, "a"))
            thread.start()
            thread.join()

        assert len(made) == 1

    def test_many_pages_are_listed(self, bucket):
        for number in range(5):
            write_file(bucket.storage, f"f/{number}.json", b"x")
            write_file(bucket.storage, f"f/{number}/x", b"x")
        write_file(bucket.storage, "f0", b"x")
        bucket.client.put_object(Bucket=bucket.name, Key="f/", Body=b"")
        _two_a_page(bucket.storage, "ListObjectsV2")

        assert list_folder(bucket.storage, "f") == (
            ["0", "1", "2", "3", "4"],
            ["0.json", "1.json", "2.json", "3.json", "4.json"],
        )

    def test_objects_are_written_with_the_storages_parameters(self, bucket):
        storage = bucket.make_storage(
            object_parameters={"CacheControl": "no-store"}, default_acl="private"
        )

        write_file(storage, "a.json", b"{}")
        write_file(storage, "a.bin.gz", b"")

        found = bucket.client.head_object(Bucket=bucket.name, Key="a.json")
        assert (found["ContentType"], found["CacheControl"]) == ("application/json", "no-store")
        found = bucket.client.head_object(Bucket=bucket.name, Key="a.bin.gz")
        assert found["ContentType"] == "application/octet-stream"

    def test_what_the_storage_compressed_is_read(self, bucket):
        storage = bucket.make_storage(gzip=True, gzip_content_types=["application/json"])
        storage.save("a.json", ContentFile(b"[1, 2, 3]"))
        stored = bucket.client.get_object(Bucket=bucket.name, Key="a.json")["Body"].read()
        assert gzip.decompress(stored) == b"[1, 2, 3]"

        assert read_file(storage, "a.json") == b"[1, 2, 3]"

    def test_of_two_that_create_one_object_one_succeeds(self, bucket):
        _is_there_first(bucket, b"theirs")

        with pytest.raises(FileExistsError):
            create_file(bucket.storage, "a", b"ours")

        assert read_file(bucket.storage, "a") == b"theirs"

    def test_what_the_client_sent_again_because_the_answer_was_lost_is_created(self, bucket):
        _is_there_first(bucket, b"ours")

        create_file(bucket.storage, "a", b"ours")

        assert read_file(bucket.storage, "a") == b"ours"

    def test_what_another_one_is_writing_or_deleting_at_this_moment_is_not_created(self, bucket):
        _answer_once(bucket.storage, "PutObject", 409, "ConditionalRequestConflict")

        with pytest.raises(FileExistsError):
            create_file(bucket.storage, "a", b"x")

    def test_a_server_without_conditions_is_written_to_all_the_same(self, bucket):
        _answer_once(bucket.storage, "PutObject", 501, "NotImplemented")

        create_file(bucket.storage, "a", b"x")

        assert read_file(bucket.storage, "a") == b"x"

    def test_errors_pass(self, bucket):
        nowhere = bucket.make_storage(bucket_name="nowhere")
        for attempt in (
            lambda: read_file(nowhere, "a"),
            lambda: write_file(nowhere, "a", b"x"),
            lambda: list_folder(nowhere, ""),
            lambda: delete_files(nowhere, ["a", "b"]),
        ):
            with pytest.raises(Exception, match="NoSuchBucket"):
                attempt()
        for operation in ("HeadObject", "PutObject"):
            _answer_once(bucket.storage, operation, 403, "AccessDenied")
            with pytest.raises(Exception, match=r"AccessDenied|403"):
                create_file(bucket.storage, "a", b"x")

    def test_every_version_is_deleted(self, bucket):
        bucket.keep_versions()
        for data in (b"one", b"two"):
            for name in ("a", "ab", "b"):
                write_file(bucket.storage, name, data)
        bucket.client.delete_object(Bucket=bucket.name, Key="a")
        write_file(bucket.storage, "a", b"three")

        delete_files(bucket.storage, ["a", "b"])

        assert bucket.versions() == ["ab", "ab"]

    def test_many_versions_are_deleted(self, bucket):
        bucket.keep_versions()
        for number in range(5):
            write_file(bucket.storage, "a", str(number).encode())
            write_file(bucket.storage, "ab", str(number).encode())
        _two_a_page(bucket.storage, "ListObjectVersions")

        with bucket.requests() as sent:
            delete_files(bucket.storage, ["a"])

        assert bucket.versions() == ["ab"] * 5
        listings = [request for request in sent if request.startswith("GET ?versions")]
        assert len(listings) == 3

    def test_a_server_that_knows_no_versions_is_not_asked_for_them(self, bucket, caplog):
        write_file(bucket.storage, "a", b"one")
        _answer_once(bucket.storage, "GetBucketVersioning", 501, "NotImplemented")

        with caplog.at_level(logging.WARNING), bucket.requests() as sent:
            delete_files(bucket.storage, ["a"])

        assert sent == ["DELETE a"]
        assert "version" not in caplog.text

    def test_without_the_permission_the_latest_is_deleted_and_that_is_said(self, bucket, caplog):
        bucket.keep_versions()
        write_file(bucket.storage, "a", b"one")
        _answer_once(bucket.storage, "GetBucketVersioning", 403, "AccessDenied")
        _answer_once(bucket.storage, "ListObjectVersions", 403, "AccessDenied")

        with caplog.at_level(logging.WARNING):
            delete_files(bucket.storage, ["a"])

        assert bucket.found() == []
        assert len(bucket.versions()) == 2
        assert "'a'" in caplog.text
        assert bucket.name in caplog.text


def _client_of(storage: Any) -> Any:
    return s3._client(storage)


def _is_there_first(bucket: TestBucket, data: bytes) -> None:
    """Has object ``a`` written in the moment before the storage does so itself."""
    events = _client_of(bucket.storage).meta.events

    def write(**_event: Any) -> None:
        events.unregister("before-send.s3.PutObject", write)
        bucket.client.put_object(Bucket=bucket.name, Key="a", Body=data)

    events.register("before-send.s3.PutObject", write)


def _two_a_page(storage: Any, operation: str) -> None:
    """Has the server list two things at a time."""

    def shorten(params: dict[str, Any], **_event: Any) -> None:
        params["MaxKeys"] = 2

    _client_of(storage).meta.events.register(f"before-parameter-build.s3.{operation}", shorten)


def _answer_once(storage: Any, operation: str, status: int, code: str) -> None:
    """Has the server answer the next request of an operation with an error."""
    events = _client_of(storage).meta.events
    name = f"before-send.s3.{operation}"

    class Raw:
        def stream(self, **_options: Any) -> Any:
            yield f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()

    def answer(request: Any, **_event: Any) -> Any:
        events.unregister(name, answer)
        return AWSResponse(request.url, status, {}, Raw())

    events.register(name, answer)


def test_a_folder_that_goes_before_a_file_is_in_it_is_made_again(tmp_path, monkeypatch):
    storage = FileSystemStorage(tmp_path)
    begin, times = os.open, iter(range(3))

    def removed_before(path: str, flags: int, *rest: Any) -> int:
        if flags & os.O_CREAT and next(times, None) is not None:
            remove_folder(storage, "folder")
        return begin(path, flags, *rest)

    monkeypatch.setattr(os, "open", removed_before)
    write_file(storage, "folder/file", b"data")
    remove_folder(storage, "folder")
    assert read_file(storage, "folder/file") == b"data"
    delete_files(storage, ["folder/file"])
    remove_folder(storage, "folder")
    assert list(tmp_path.iterdir()) == []
