"""A server that speaks S3, for real clients of it: moto's, in a thread, without a network.

Import the fixture where it is used; its name is ``bucket``::

    from tests.s3 import bucket_fixture  # noqa: F401 - a fixture


    def test_something(bucket):
        bucket.storage  # a django-storages S3Storage, as STORAGES would make it
        bucket.client  # a boto3 client
        bucket.name, bucket.endpoint

``bucket`` is new and empty for each test. ``bucket.make_storage(location="x")`` makes another
storage in it, ``bucket.options`` is what STORAGES would have as OPTIONS,
``bucket.keep_versions()`` turns on versions, ``bucket.found()`` lists the keys of what is there,
and ``bucket.session`` is a ``boto3.Session`` for whoever makes a client of their own, as Strands'
``S3SessionManager(..., bucket=bucket.name, boto_session=bucket.session,
endpoint_url=bucket.endpoint)`` does. ``with bucket.requests() as sent:`` lists the requests that
any client sends to the server meanwhile: ``"GET session_s/session.json"``.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import threading
from collections.abc import Iterator
from functools import cache
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer
from storages.backends.s3 import S3Storage

REGION = "us-east-1"
KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}

_numbers = itertools.count(1)
_sessions = threading.local()


class QuickStorage(S3Storage):  # type: ignore[misc] # has no types
    """An ``S3Storage`` that makes one session per thread, which takes a third of a second."""

    def _create_session(self) -> Any:
        if not hasattr(_sessions, "made"):
            _sessions.made = boto3.Session(**KEYS, region_name=REGION)
        return _sessions.made


class TestBucket:
    """A bucket and what reaches it."""

    __test__ = False

    def __init__(self, server: ThreadedMotoServer) -> None:
        self.server = server
        self.name = f"bucket-{next(_numbers)}"
        host, port = server.get_host_and_port()
        self.endpoint = f"http://{host}:{port}"
        self.session, self.client = _client(self.endpoint)
        self.client.create_bucket(Bucket=self.name)
        self.storage = self.make_storage()

    @property
    def options(self) -> dict[str, Any]:
        """What STORAGES has as OPTIONS, beside the backend."""
        return {
            "access_key": KEYS["aws_access_key_id"],
            "secret_key": KEYS["aws_secret_access_key"],
            "bucket_name": self.name,
            "endpoint_url": self.endpoint,
            "region_name": REGION,
        }

    def make_storage(self, kind: type[S3Storage] = QuickStorage, **options: Any) -> Any:
        """Makes another storage in the bucket."""
        return kind(**{**self.options, **options})

    def keep_versions(self) -> None:
        """Has the bucket keep every version of its objects from now on."""
        self.client.put_bucket_versioning(
            Bucket=self.name, VersioningConfiguration={"Status": "Enabled"}
        )

    def found(self) -> list[str]:
        """Lists the keys of all objects, in order."""
        found = self.client.list_objects_v2(Bucket=self.name)
        return [item["Key"] for item in found.get("Contents", ())]

    def versions(self) -> list[str]:
        """Lists the keys of all versions of objects, marks of deletion included."""
        found = self.client.list_object_versions(Bucket=self.name)
        return [
            item["Key"] for item in (*found.get("Versions", ()), *found.get("DeleteMarkers", ()))
        ]

    @contextlib.contextmanager
    def requests(self) -> Iterator[list[str]]:
        """Lists the requests that reach the server meanwhile: method, key or query."""
        sent: list[str] = []
        assert self.server._server is not None
        handler = self.server._server.app
        before = f"/{self.name}"

        def watch(environ: Any, start_response: Any) -> Any:
            path = environ["PATH_INFO"].encode("latin-1").decode().removeprefix(before).lstrip("/")
            query = environ["QUERY_STRING"] if not path else ""
            sent.append(f"{environ['REQUEST_METHOD']} {path or '?' + query}")
            return handler(environ, start_response)

        self.server._server.app = watch
        try:
            yield sent
        finally:
            self.server._server.app = handler


@cache
def _client(endpoint: str) -> tuple[Any, Any]:
    """A session and a client, which take long to make and may be shared."""
    session = boto3.Session(**KEYS, region_name=REGION)
    return session, session.client("s3", endpoint_url=endpoint)


@cache
def server() -> ThreadedMotoServer:
    """The server: one for the process, whichever modules use it."""
    started = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    started.start()
    atexit.register(started.stop)
    return started


@pytest.fixture(name="bucket")
def bucket_fixture() -> TestBucket:
    """A bucket of the test's own."""
    return TestBucket(server())
