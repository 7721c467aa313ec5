"""Whole files in a bucket of S3's: one request each, what is there first, versions."""

from __future__ import annotations

import gzip
import logging
import threading
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from django.core.files.base import ContentFile
from storages.backends.s3 import S3Storage

from django_agent_sessions.blobs.file_storage import (
    create_file,
    delete_files,
    list_folder,
    read_file,
    read_files,
    s3,
    write_file,
)
from tests.changing import Changing, changed
from tests.s3 import TestBucket, bucket_fixture  # noqa: F401 - a fixture


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
        class ChangingInABucket(Changing, S3Storage):  # type: ignore[misc] # has no types
            pass

        storage = bucket.make_storage(ChangingInABucket)
        for data in (b"one", b"two"):
            write_file(storage, "a", data)

        assert read_file(storage, "a") == b"two"
        assert read_file(bucket.storage, "a") == changed(ContentFile(b"two")).read()

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
