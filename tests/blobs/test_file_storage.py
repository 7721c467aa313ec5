"""Whole files in storages of every kind: exact names, in parallel, at once or not at all."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import SuspiciousOperation
from django.core.files.base import ContentFile
from django.core.files.storage import FileSystemStorage, InMemoryStorage, default_storage

from django_agent_sessions.blobs.file_storage import (
    create_file,
    delete_files,
    is_link,
    list_folder,
    make_folder,
    read_file,
    read_files,
    remove_folder,
    write_file,
)
from tests.changing import Changing
from tests.s3 import bucket_fixture  # noqa: F401 - a fixture


class ChangingOnDisk(Changing, FileSystemStorage):
    """Files that are not what is kept in them."""


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
        "changing": lambda: ChangingOnDisk(tmp_path),
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
            with pytest.raises(OSError, match=r"no space|already exists"):
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
        with pytest.raises(FileExistsError):
            write_file(storage, "b/c", b"x")
        with pytest.raises((FileExistsError, NotADirectoryError)):
            create_file(storage, "b/c", b"x")
        assert read_file(storage, "b") == b"x"

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
