"""Objects in an S3 bucket, with the client of django-storages' ``S3Storage``.

The storage's ``open`` sends two or three requests per object and opens a connection per thread,
which takes longer than reading a small file. Here one client serves all threads.
"""

from __future__ import annotations

import gzip
import io
import logging
import mimetypes
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from django.core.files.storage import Storage

from .generic import StorageBackend, inherits_methods
from .streams import Pieces, open_part

logger = logging.getLogger(__name__)

_clients: WeakKeyDictionary[Storage, Any] = WeakKeyDictionary()

_READ_PARAMETERS = frozenset(
    {
        "ExpectedBucketOwner",
        "RequestPayer",
        "SSECustomerAlgorithm",
        "SSECustomerKey",
        "SSECustomerKeyMD5",
    }
)
"""The ``object_parameters`` of a storage that also apply to reading an object."""

_DELETE_PARAMETERS = frozenset({"ExpectedBucketOwner", "RequestPayer"})

_CONNECTIONS = 50

_BYPASSED_METHODS = (
    "open",
    "_open",
    "save",
    "_save",
    "_get_write_parameters",
    "delete",
    "exists",
    "listdir",
)
"""Methods that are bypassed here, and therefore must not be overridden in the storage."""


class S3Backend(StorageBackend):
    """Reads and writes objects of an ``S3Storage``."""

    # Any, because django-storages has no type annotations.
    storage: Any

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self._client = _client(storage)
        self._bucket: str = self.storage.bucket_name
        # More threads would only wait for a connection.
        self.width: int = self._client.meta.config.max_pool_connections

    @staticmethod
    def fits(storage: Storage) -> bool:
        """Return whether this class supports a storage."""
        base = _base(storage)
        return base is not None and inherits_methods(storage, base, _BYPASSED_METHODS)

    def _read(self, name: str, size: int) -> bytes:
        """Read the first bytes of an object, or all of it, with one request."""
        key = self._key(name)
        try:
            response = self._client.get_object(
                Bucket=self._bucket, Key=key, **self._parameters(key, _READ_PARAMETERS)
            )
        except self._client.exceptions.NoSuchKey as error:
            raise FileNotFoundError(f"file {name!r} does not exist") from error
        with response["Body"] as body:
            if self.storage.gzip and response.get("ContentEncoding") == "gzip":
                return gzip.GzipFile(fileobj=io.BytesIO(body.read())).read(size)
            data: bytes = body.read(None if size < 0 else size)
        return data

    def stream(self, name: str, start: int, stop: int | None) -> Pieces:
        """Open a part of an object with one request; the storage's file downloads all of it."""
        if self.storage.gzip:
            # A range of the compressed data is useless.
            return open_part(io.BytesIO(self.read(name)), start, stop)
        key = self._key(name)
        last = "" if stop is None else stop - 1
        parameters: dict[str, Any] = self._parameters(key, _READ_PARAMETERS)
        if start or stop is not None:
            parameters["Range"] = f"bytes={start}-{last}"
        try:
            response = self._client.get_object(Bucket=self._bucket, Key=key, **parameters)
        except self._client.exceptions.NoSuchKey as error:
            raise FileNotFoundError(f"file {name!r} does not exist") from error
        except self._client.exceptions.ClientError as error:
            if _code(error) != "InvalidRange":
                raise
            # The range begins after the end of the object.
            return Pieces(self.storage.size(name), 0, lambda size: b"", lambda: None)
        body, length = response["Body"], response["ContentLength"]
        total = response.get("ContentRange", "").rpartition("/")[2] or length
        return Pieces(int(total), length, body.read, body.close)

    def write(self, name: str, data: bytes) -> None:
        """Write an object with one request."""
        self._put(self._key(name), data)

    def add(self, name: str, data: bytes) -> str:
        """Write a file under a name that no other has."""
        self.write(name, data)
        return name

    def create(self, name: str, data: bytes) -> None:
        """Write a new object; raise :exc:`FileExistsError` if it exists."""
        key = self._key(name)
        # Some servers ignore the condition below.
        if self._exists(key):
            raise FileExistsError(f"file {name!r} already exists")
        put_parameters = self._client.meta.service_model.operation_model(
            "PutObject"
        ).input_shape.members
        condition = {"IfNoneMatch": "*"} if "IfNoneMatch" in put_parameters else {}
        try:
            self._put(key, data, **condition)
        except self._client.exceptions.ClientError as error:
            code = _code(error)
            if code == "NotImplemented":
                self._put(key, data)
            elif code not in {"PreconditionFailed", "ConditionalRequestConflict"}:
                raise
            elif not self._was_sent_twice(name, data):
                raise FileExistsError(f"file {name!r} already exists") from error

    def deleter(self) -> Callable[[str], None]:
        """Return a function that deletes an object with its versions, if the bucket has any."""
        versioned = self._keeps_versions()

        def delete(name: str) -> None:
            key = self._key(name)
            if versioned:
                self._delete_versions(name, key)
            else:
                self._delete(key)

        return delete

    def list(self, name: str) -> tuple[list[str], list[str]]:
        """Return the folders and files directly under a prefix."""
        prefix = self._key(name).rstrip("/")
        prefix = f"{prefix}/" if prefix else ""
        folders: list[str] = []
        files: list[str] = []
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket,
            Prefix=prefix,
            Delimiter="/",
            **self._parameters(prefix, _DELETE_PARAMETERS),
        )
        for page in pages:
            folders += (
                entry["Prefix"][len(prefix) : -1] for entry in page.get("CommonPrefixes", ())
            )
            # File managers create an object for the folder itself.
            files += (
                entry["Key"][len(prefix) :]
                for entry in page.get("Contents", ())
                if entry["Key"] != prefix
            )
        return folders, files

    def _key(self, name: str) -> str:
        """Return the key of a name below the storage's location; raise if it is outside of it."""
        key: str = self.storage._normalize_name(name)
        return key

    def _put(self, key: str, data: bytes, **condition: str) -> None:
        parameters = self.storage.get_object_parameters(key)
        if "ContentType" not in parameters:
            content_type, encoding = mimetypes.guess_type(key)
            parameters["ContentType"] = (
                None if encoding else content_type
            ) or self.storage.default_content_type
        if self.storage.default_acl:
            parameters.setdefault("ACL", self.storage.default_acl)
        self._client.put_object(
            Bucket=self._bucket, Key=key, Body=data, **{**parameters, **condition}
        )

    def _exists(self, key: str) -> bool:
        try:
            self._client.head_object(
                Bucket=self._bucket, Key=key, **self._parameters(key, _READ_PARAMETERS)
            )
        except self._client.exceptions.ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
                return False
            raise
        return True

    def _was_sent_twice(self, name: str, data: bytes) -> bool:
        """Return whether the object is ours: a response was lost and the client retried."""
        try:
            return self.read(name) == data
        except FileNotFoundError:
            return False

    def _keeps_versions(self) -> bool:
        try:
            response = self._client.get_bucket_versioning(Bucket=self._bucket)
        except self._client.exceptions.ClientError as error:
            # Listing versions may be permitted nevertheless. Some servers do not support versions.
            return _code(error) != "NotImplemented"
        # A bucket with suspended versioning still has earlier versions.
        return "Status" in response

    def _delete(self, key: str, **version: str) -> None:
        parameters = self._parameters(key, _DELETE_PARAMETERS)
        self._client.delete_object(Bucket=self._bucket, Key=key, **parameters, **version)

    def _delete_versions(self, name: str, key: str) -> None:
        try:
            # Listed completely first, because pagination continues from an existing version.
            for version in list(self._versions(key)):
                self._delete(key, VersionId=version)
        except self._client.exceptions.ClientError as error:
            code = _code(error)
            if code not in {"AccessDenied", "MethodNotAllowed", "NotImplemented"}:
                raise
            logger.warning(
                "Only the latest version of %r was deleted from bucket %r, "
                "older versions may remain: %s",
                name,
                self._bucket,
                code,
            )
            self._delete(key)

    def _versions(self, key: str) -> Iterator[str]:
        pages = self._client.get_paginator("list_object_versions").paginate(
            Bucket=self._bucket, Prefix=key
        )
        for page in pages:
            for entry in (*page.get("Versions", ()), *page.get("DeleteMarkers", ())):
                if entry["Key"] == key:
                    yield entry["VersionId"]
            # Sorted by key: the key comes before longer keys with this prefix.
            if page.get("IsTruncated") and page.get("NextKeyMarker") != key:
                return

    def _parameters(self, key: str, wanted: frozenset[str]) -> dict[str, Any]:
        parameters = self.storage.get_object_parameters(key)
        return {name: value for name, value in parameters.items() if name in wanted}


def _base(storage: Storage) -> type | None:
    """Return the ``S3Storage`` base class of a storage, or None."""
    for base in storage.__class__.__mro__:
        # By its name, because django-storages is an optional dependency and not imported here.
        if (base.__module__, base.__name__) == ("storages.backends.s3", "S3Storage"):
            return base
    return None


def _client(storage: Any) -> Any:
    """Return the thread-safe client of a storage."""
    client = _clients.get(storage)
    if client is None:
        # Two threads may create one each; either can be used.
        client = _clients.setdefault(storage, _make_client(storage))
    return client


def _make_client(storage: Any) -> Any:
    """Create a client as the storage does, with a connection for each parallel read.

    Reading from S3 is mostly waiting, and botocore's default is ten connections. A project's own
    pool size or ``connection`` is kept.
    """
    config = storage.client_config
    base = _base(storage)
    if base is None or config is None or not inherits_methods(storage, base, ("connection",)):
        return storage.connection.meta.client
    kind = type(config)
    if config.max_pool_connections == kind().max_pool_connections:
        config = config.merge(kind(max_pool_connections=_CONNECTIONS))
    # Not from a resource, whose description is slow to load and not used.
    return storage._create_session().client(
        "s3",
        region_name=storage.region_name,
        use_ssl=storage.use_ssl,
        endpoint_url=storage.endpoint_url,
        config=config,
        verify=storage.verify,
    )


def _code(error: Any) -> str:
    code: str = error.response.get("Error", {}).get("Code", "")
    return code
