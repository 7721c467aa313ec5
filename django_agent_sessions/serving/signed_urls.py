"""Signed URLs, from which a browser reads a binary in its storage for a limited time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

from django.core.files.storage import InvalidStorageError, storages

from django_agent_sessions import conf
from django_agent_sessions.models import Blob

logger = logging.getLogger("django_agent_sessions")


_NO_STORE = "private, no-store"


class _UrlOptions(NamedTuple):
    content_type: str
    disposition: str
    seconds: int


def signed_url(blob: Blob, content_type: str, disposition: str) -> str | None:
    """Return a signed URL, if ``BLOB_URL_SECONDS`` is set and the storage can create one.

    The URL fixes the response headers, so that a browser runs nothing in the content. Storages that
    cannot do that are not used.
    """
    seconds = conf.get_settings().BLOB_URL_SECONDS
    if seconds is None:
        return None
    try:
        storage: Any = storages[blob.storage]
        sign = _signer(storage)
        return (
            None
            if sign is None
            else sign(storage, blob.file, _UrlOptions(content_type, disposition, seconds))
        )
    except InvalidStorageError:
        # Reading the file raises the error.
        return None
    except Exception as error:
        # A storage without keys for signing can still be read.
        logger.warning(
            "the URL of binary %s of session %s could not be signed by storage %r: %s",
            blob.pk,
            blob.session_id,
            blob.storage,
            type(error).__name__,
        )
        return None


def _s3(storage: Any, name: str, options: _UrlOptions) -> str | None:
    # A custom domain is that of a CDN, which ignores the parameters for response headers.
    if not storage.querystring_auth or storage.custom_domain:
        return None
    parameters = {
        "ResponseContentType": options.content_type,
        "ResponseContentDisposition": options.disposition,
        "ResponseCacheControl": _NO_STORE,
    }
    url: str = storage.url(name, parameters=parameters, expire=options.seconds)
    return url


def _google(storage: Any, name: str, options: _UrlOptions) -> str | None:
    # Google's URLs cannot set Cache-Control, which is an attribute of the stored object.
    public = storage.get_object_parameters(name).get("acl", storage.default_acl) == "publicRead"
    if not storage.querystring_auth or public:
        return None
    parameters = {
        "response_type": options.content_type,
        "response_disposition": options.disposition,
        "expiration": timedelta(seconds=options.seconds),
    }
    url: str = storage.url(name, parameters=parameters)
    return url


def _azure(storage: Any, name: str, options: _UrlOptions) -> str | None:
    parameters = {
        "content_type": options.content_type,
        "content_disposition": options.disposition,
        "cache_control": _NO_STORE,
    }
    url: str = storage.url(name, expire=options.seconds, parameters=parameters)
    return url


_Signer = Callable[[Any, str, _UrlOptions], str | None]
_SIGNERS: dict[tuple[str, str], _Signer] = {
    ("storages.backends.s3", "S3Storage"): _s3,
    ("storages.backends.gcloud", "GoogleCloudStorage"): _google,
    ("storages.backends.azure_storage", "AzureStorage"): _azure,
}
"""Signing functions by the names of django-storages' classes, which are never imported."""


def _signer(storage: Any) -> _Signer | None:
    for base in storage.__class__.__mro__:
        if (signer := _SIGNERS.get((base.__module__, base.__name__))) is not None:
            return signer
    return None
