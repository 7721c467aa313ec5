"""Objects in an S3 bucket, with the client of django-storages' ``S3Storage``.

Its own ``open`` sends two requests for an object, or three, and it makes a new connection for each
thread, which takes longer than reading a small file. One client serves all threads here.
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

from .generic import AnyStorage, keeps_ways
from .pieces import Pieces, part_of

logger = logging.getLogger(__name__)

_clients: WeakKeyDictionary[Storage, Any] = WeakKeyDictionary()

_FOR_READING = frozenset(
    {
        "ExpectedBucketOwner",
        "RequestPayer",
        "SSECustomerAlgorithm",
        "SSECustomerKey",
        "SSECustomerKeyMD5",
    }
)
"""Those of a storage's ``object_parameters`` that reading an object needs too."""

_FOR_DELETING = frozenset({"ExpectedBucketOwner", "RequestPayer"})

_CONNECTIONS = 50

_WAYS = (
    "open",
    "_open",
    "save",
    "_save",
    "_get_write_parameters",
    "delete",
    "exists",
    "listdir",
)
"""The methods of a storage that are not used here, and must be its own for that."""


class Bucket(AnyStorage):
    """Reads and writes where an ``S3Storage`` does."""

    # Its attributes are those of django-storages, which has no types.
    storage: Any

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self._client = _client(storage)
        self._bucket: str = self.storage.bucket_name
        # More would only wait for a connection.
        self.width: int = self._client.meta.config.max_pool_connections

    @staticmethod
    def fits(storage: Storage) -> bool:
        """Tells whether a storage is of this kind."""
        base = _base(storage)
        return base is not None and keeps_ways(storage, base, _WAYS)

    def read(self, name: str) -> bytes:
        """Reads an object with one request."""
        key = self._key(name)
        try:
            found = self._client.get_object(
                Bucket=self._bucket, Key=key, **self._parameters(key, _FOR_READING)
            )
        except self._client.exceptions.NoSuchKey as error:
            raise FileNotFoundError(f"no file {name!r}") from error
        with found["Body"] as body:
            data: bytes = body.read()
        if self.storage.gzip and found.get("ContentEncoding") == "gzip":
            return gzip.decompress(data)
        return data

    def stream(self, name: str, start: int, stop: int | None) -> Pieces:
        """Reads a part of an object with one request; the storage's own file downloads it all."""
        if self.storage.gzip:
            # A part of what is compressed is no part of what was.
            return part_of(io.BytesIO(self.read(name)), start, stop)
        key = self._key(name)
        last = "" if stop is None else stop - 1
        parameters: dict[str, Any] = self._parameters(key, _FOR_READING)
        if start or stop is not None:
            parameters["Range"] = f"bytes={start}-{last}"
        try:
            found = self._client.get_object(Bucket=self._bucket, Key=key, **parameters)
        except self._client.exceptions.NoSuchKey as error:
            raise FileNotFoundError(f"no file {name!r}") from error
        except self._client.exceptions.ClientError as error:
            if _code(error) != "InvalidRange":
                raise
            # It begins after the object's end.
            return Pieces(self.storage.size(name), 0, lambda size: b"", lambda: None)
        body, length = found["Body"], found["ContentLength"]
        whole = found.get("ContentRange", "").rpartition("/")[2] or length
        return Pieces(int(whole), length, body.read, body.close)

    def write(self, name: str, data: bytes) -> None:
        """Writes an object with one request."""
        self._put(self._key(name), data)

    def create(self, name: str, data: bytes) -> None:
        """Writes an object on the condition that there is none."""
        key = self._key(name)
        # Some servers do not know the condition below, and take no notice of it.
        if self._is_there(key):
            raise FileExistsError(f"file {name!r} exists already")
        put = self._client.meta.service_model.operation_model("PutObject").input_shape.members
        condition = {"IfNoneMatch": "*"} if "IfNoneMatch" in put else {}
        try:
            self._put(key, data, **condition)
        except self._client.exceptions.ClientError as error:
            code = _code(error)
            if code == "NotImplemented":
                self._put(key, data)
            elif code not in {"PreconditionFailed", "ConditionalRequestConflict"}:
                raise
            elif not self._was_sent_twice(name, data):
                raise FileExistsError(f"file {name!r} exists already") from error

    def deleter(self) -> Callable[[str], None]:
        """Returns what deletes an object, with its versions if the bucket keeps some."""
        versioned = self._keeps_versions()

        def delete(name: str) -> None:
            key = self._key(name)
            if versioned:
                self._delete_versions(name, key)
            else:
                self._delete(key)

        return delete

    def list(self, name: str) -> tuple[list[str], list[str]]:
        """Lists what is directly under a prefix."""
        prefix = self._key(name).rstrip("/")
        prefix = f"{prefix}/" if prefix else ""
        folders: list[str] = []
        files: list[str] = []
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket,
            Prefix=prefix,
            Delimiter="/",
            **self._parameters(prefix, _FOR_DELETING),
        )
        for page in pages:
            folders += (
                found["Prefix"][len(prefix) : -1] for found in page.get("CommonPrefixes", ())
            )
            # The folder itself is an object if somebody made it with a file manager.
            files += (
                found["Key"][len(prefix) :]
                for found in page.get("Contents", ())
                if found["Key"] != prefix
            )
        return folders, files

    def _key(self, name: str) -> str:
        """Puts the storage's location before a name; refuses a name that leads out of it."""
        key: str = self.storage._normalize_name(name)
        return key

    def _put(self, key: str, data: bytes, **condition: str) -> None:
        parameters = self.storage.get_object_parameters(key)
        if "ContentType" not in parameters:
            guessed, encoding = mimetypes.guess_type(key)
            parameters["ContentType"] = (
                None if encoding else guessed
            ) or self.storage.default_content_type
        if self.storage.default_acl:
            parameters.setdefault("ACL", self.storage.default_acl)
        self._client.put_object(
            Bucket=self._bucket, Key=key, Body=data, **{**parameters, **condition}
        )

    def _is_there(self, key: str) -> bool:
        try:
            self._client.head_object(
                Bucket=self._bucket, Key=key, **self._parameters(key, _FOR_READING)
            )
        except self._client.exceptions.ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
                return False
            raise
        return True

    def _was_sent_twice(self, name: str, data: bytes) -> bool:
        """Tells whether what is there is ours: an answer was lost, and the client tried again."""
        try:
            return self.read(name) == data
        except FileNotFoundError:
            return False

    def _keeps_versions(self) -> bool:
        try:
            found = self._client.get_bucket_versioning(Bucket=self._bucket)
        except self._client.exceptions.ClientError as error:
            # Who is not allowed to ask may be allowed to look for versions. Some servers have none.
            return _code(error) != "NotImplemented"
        # A bucket that stopped keeping them still has those from before.
        return "Status" in found

    def _delete(self, key: str, **version: str) -> None:
        parameters = self._parameters(key, _FOR_DELETING)
        self._client.delete_object(Bucket=self._bucket, Key=key, **parameters, **version)

    def _delete_versions(self, name: str, key: str) -> None:
        try:
            # All are listed first: a listing goes on from a version that has to be there still.
            for version in list(self._versions(key)):
                self._delete(key, VersionId=version)
        except self._client.exceptions.ClientError as error:
            code = _code(error)
            if code not in {"AccessDenied", "MethodNotAllowed", "NotImplemented"}:
                raise
            logger.warning(
                "Only the latest version of %r was deleted from bucket %r, "
                "older ones may be left there: %s",
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
            for found in (*page.get("Versions", ()), *page.get("DeleteMarkers", ())):
                if found["Key"] == key:
                    yield found["VersionId"]
            # Sorted by key, and the key itself comes before what begins with it.
            if page.get("IsTruncated") and page.get("NextKeyMarker") != key:
                return

    def _parameters(self, key: str, wanted: frozenset[str]) -> dict[str, Any]:
        parameters = self.storage.get_object_parameters(key)
        return {name: value for name, value in parameters.items() if name in wanted}


def _base(storage: Storage) -> type | None:
    """Finds ``S3Storage`` among the classes of a storage."""
    for base in storage.__class__.__mro__:
        # By its name: whoever uses django-storages has it imported, and we never do.
        if (base.__module__, base.__name__) == ("storages.backends.s3", "S3Storage"):
            return base
    return None


def _client(storage: Any) -> Any:
    """The client of a storage, which any thread may use."""
    found = _clients.get(storage)
    if found is None:
        # Two threads may make one each at the same time; either will do.
        found = _clients.setdefault(storage, _make_client(storage))
    return found


def _make_client(storage: Any) -> Any:
    """Makes a client as the storage does, with a connection for each file that is read at once.

    Most of what it takes to read files from S3 is waiting for answers, and botocore's default lets
    ten wait at the same time. A project that chose another number, or connects its own way, keeps
    that.
    """
    config = storage.client_config
    base = _base(storage)
    if base is None or config is None or not keeps_ways(storage, base, ("connection",)):
        return storage.connection.meta.client
    kind = type(config)
    if config.max_pool_connections == kind().max_pool_connections:
        config = config.merge(kind(max_pool_connections=_CONNECTIONS))
    # Not of a resource, whose description takes long to read and is not used.
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
