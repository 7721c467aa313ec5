"""What django-storages' ``S3Storage`` leaves open, by the boto3 bucket that it gives to everyone.

Its ``delete`` only hides an object of a versioned bucket, and redacted content would stay. Its
files send three requests to read an object: to read 50 images took 3.6 times as long.
"""

from __future__ import annotations

import logging
import posixpath
from typing import IO, Any

from django.core.files.storage import Storage
from django.core.files.utils import validate_file_name

logger = logging.getLogger(__name__)

_READ_PARAMETERS = ("SSECustomer", "RequestPayer", "ExpectedBucketOwner")
"""Beginnings of the ``object_parameters`` that a request to read an object needs."""


def open_object(storage: Any, name: str) -> tuple[IO[bytes], int] | None:
    """Open an object for reading, with one request; also return its size.

    ``None`` if the storage is another one, opens or compresses files in its own way, or if its
    requests have parameters.
    """
    base = _base(storage)
    if base is None or storage.gzip or storage.__class__._open is not base._open:
        return None
    if any(key.startswith(_READ_PARAMETERS) for key in storage.get_object_parameters(name)):
        return None
    bucket = storage.bucket
    try:
        response = bucket.Object(_key(storage, name)).get()
    except bucket.meta.client.exceptions.NoSuchKey as error:
        raise FileNotFoundError(f"file {name!r} does not exist") from error
    return response["Body"], response["ContentLength"]


def may_have_versions(storage: Any) -> bool:
    """Return whether the storage is a bucket that keeps versions, or kept them once."""
    if _base(storage) is None:
        return False
    bucket = storage.bucket
    try:
        return bucket.Versioning().status is not None
    except bucket.meta.client.exceptions.ClientError as error:
        # Listing versions may be permitted nevertheless. Some servers do not support versions.
        return _code(error) != "NotImplemented"


def delete_versions(storage: Any, name: str) -> None:
    """Delete all versions of an object that was deleted; log a warning if not permitted."""
    bucket, key = storage.bucket, _key(storage, name)
    try:
        # Listed completely first, because pagination continues from an existing version.
        for version in list(bucket.object_versions.filter(Prefix=key)):
            if version.object_key == key:
                version.delete()
    except bucket.meta.client.exceptions.ClientError as error:
        if _code(error) not in {"AccessDenied", "MethodNotAllowed", "NotImplemented"}:
            raise
        logger.warning(
            "Only the latest version of %r was deleted from bucket %r, older versions may "
            "remain: %s",
            name,
            bucket.name,
            _code(error),
        )


def _base(storage: Storage) -> Any:
    """Return the class ``S3Storage`` of a storage, None for other storages."""
    for base in storage.__class__.__mro__:
        # By its name, because django-storages is an optional dependency and not imported here.
        if (base.__module__, base.__name__) == ("storages.backends.s3", "S3Storage"):
            return base
    return None


def _key(storage: Any, name: str) -> str:
    validate_file_name(name, allow_relative_path=True)
    return posixpath.normpath(posixpath.join(storage.location, name))


def _code(error: Any) -> str:
    code: str = error.response.get("Error", {}).get("Code", "")
    return code
