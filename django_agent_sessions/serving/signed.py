"""Signed URLs, with which a browser fetches a binary from its storage for a while."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

from django.core.files.storage import InvalidStorageError, storages

from django_agent_sessions import conf
from django_agent_sessions.models import Blob

logger = logging.getLogger("django_agent_sessions")


class _Wanted(NamedTuple):
    content_type: str
    disposition: str
    seconds: int


def signed_url(blob: Blob, content_type: str, disposition: str) -> str | None:
    """Signs a URL, if ``BLOB_URL_SECONDS`` asks for that.

    The URL fixes what the storage says of the content, so that nothing in it runs there either. A
    storage that does not do that, or signs nothing, is not asked.
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
            else sign(storage, blob.file, _Wanted(content_type, disposition, seconds))
        )
    except InvalidStorageError:
        # Whoever reads the file says so.
        return None
    except Exception as error:
        # A storage without the keys to sign with can be read all the same.
        logger.warning(
            "no URL of binary %s of session %s could be signed by storage %r: %s",
            blob.pk,
            blob.session_id,
            blob.storage,
            type(error).__name__,
        )
        return None


def _s3(storage: Any, name: str, wanted: _Wanted) -> str | None:
    # A domain of one's own is that of a cache, which takes no notice of what is to be said.
    if not storage.querystring_auth or storage.custom_domain:
        return None
    said = {
        "ResponseContentType": wanted.content_type,
        "ResponseContentDisposition": wanted.disposition,
        "ResponseCacheControl": "private, no-store",
    }
    url: str = storage.url(name, parameters=said, expire=wanted.seconds)
    return url


def _google(storage: Any, name: str, wanted: _Wanted) -> str | None:
    public = storage.get_object_parameters(name).get("acl", storage.default_acl) == "publicRead"
    if not storage.querystring_auth or public:
        return None
    said = {
        "response_type": wanted.content_type,
        "response_disposition": wanted.disposition,
        "expiration": timedelta(seconds=wanted.seconds),
    }
    url: str = storage.url(name, parameters=said)
    return url


def _azure(storage: Any, name: str, wanted: _Wanted) -> str | None:
    said = {"content_type": wanted.content_type, "content_disposition": wanted.disposition}
    url: str = storage.url(name, expire=wanted.seconds, parameters=said)
    return url


_Signer = Callable[[Any, str, _Wanted], str | None]
_SIGNERS: dict[tuple[str, str], _Signer] = {
    ("storages.backends.s3", "S3Storage"): _s3,
    ("storages.backends.gcloud", "GoogleCloudStorage"): _google,
    ("storages.backends.azure_storage", "AzureStorage"): _azure,
}
"""Who signs what, by the names of django-storages' classes: we never import them."""


def _signer(storage: Any) -> _Signer | None:
    for base in storage.__class__.__mro__:
        if (found := _SIGNERS.get((base.__module__, base.__name__))) is not None:
            return found
    return None
