"""Whole files in a bucket of S3's: by the storage's own methods, with all their versions."""

from __future__ import annotations

import gzip
import logging
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
    stream_file,
    write_file,
)
from tests.changing import Changing, changed
from tests.s3 import TestBucket, bucket_fixture  # noqa: F401 - a fixture


class TestInABucket:
    def test_one_request_reads_a_file(self, bucket):
        names = [f"many/{number}" for number in range(30)]
        for name in names:
            write_file(bucket.storage, name, b"x")
        with bucket.requests() as sent:
            list(read_files(bucket.storage, names))
            list(stream_file(bucket.storage, "many/0"))

        assert sorted(sent) == sorted(f"GET {name}" for name in [*names, "many/0"])

    def test_a_key_of_the_customers_own_is_sent(self, bucket):
        key = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": "0" * 32}
        storage = bucket.make_storage(object_parameters=key)
        write_file(storage, "a", b"x")

        with bucket.requests() as sent:
            assert read_file(storage, "a") == b"x"
        # By the storage's own file, which sends the key.
        assert sent == ["HEAD a", "HEAD a", "GET a"]

    def test_a_storage_with_ways_of_its_own_is_used_through_them(self, bucket):
        class ChangingInABucket(Changing, S3Storage):  # type: ignore[misc] # has no types
            pass

        storage = bucket.make_storage(ChangingInABucket)
        for data in (b"one", b"two"):
            write_file(storage, "a", data)

        assert read_file(storage, "a") == b"two"
        assert read_file(bucket.storage, "a") == changed(ContentFile(b"two")).read()

    def test_a_folder_is_listed_without_the_object_that_stands_for_it(self, bucket):
        for number in range(5):
            write_file(bucket.storage, f"f/{number}.json", b"x")
            write_file(bucket.storage, f"f/{number}/x", b"x")
        write_file(bucket.storage, "f0", b"x")
        bucket.client.put_object(Bucket=bucket.name, Key="f/", Body=b"")

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

    # django-storages leaves its temporary file to the garbage collector.
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    def test_what_the_storage_compressed_is_read(self, bucket):
        storage = bucket.make_storage(gzip=True, gzip_content_types=["application/json"])
        storage.save("a.json", ContentFile(b"[1, 2, 3]"))
        stored = bucket.client.get_object(Bucket=bucket.name, Key="a.json")["Body"].read()
        assert gzip.decompress(stored) == b"[1, 2, 3]"

        assert read_file(storage, "a.json") == b"[1, 2, 3]"

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

        delete_files(bucket.storage, ["a"])

        assert bucket.versions() == ["ab"] * 5

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


def _two_a_page(storage: Any, operation: str) -> None:
    """Has the server list two things at a time."""

    def shorten(params: dict[str, Any], **_event: Any) -> None:
        params["MaxKeys"] = 2

    events = storage.bucket.meta.client.meta.events
    events.register(f"before-parameter-build.s3.{operation}", shorten)


def _answer_once(storage: Any, operation: str, status: int, code: str) -> None:
    """Has the server answer the next request of an operation with an error."""
    events = storage.bucket.meta.client.meta.events
    name = f"before-send.s3.{operation}"

    class Raw:
        def stream(self, **_options: Any) -> Any:
            yield f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()

    def answer(request: Any, **_event: Any) -> Any:
        events.unregister(name, answer)
        return AWSResponse(request.url, status, {}, Raw())

    events.register(name, answer)
