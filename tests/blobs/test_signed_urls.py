"""What clouds are asked that cannot run here: stand-ins take what the real ``url`` takes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.core.files.storage import InMemoryStorage

from django_agent_sessions.models import Blob
from django_agent_sessions.serving.signed_urls import signed_url

told: list[tuple[str, dict[str, Any]]] = []


class GoogleCloudStorage(InMemoryStorage):
    """Signs as django-storages' does, by what is in ``parameters``."""

    __module__ = "storages.backends.gcloud"
    querystring_auth = True
    default_acl: str | None = None

    def get_object_parameters(self, name: str) -> dict[str, Any]:
        return {}

    def url(self, name: str | None, parameters: dict[str, Any] | None = None) -> str:
        told.append((str(name), parameters or {}))
        return "https://google.example/signed"


class PublicStorage(GoogleCloudStorage):
    default_acl = "publicRead"


class AzureStorage(InMemoryStorage):
    """Signs as django-storages' does, for as long as ``expire`` says."""

    __module__ = "storages.backends.azure_storage"

    def url(
        self, name: str | None, expire: int | None = None, parameters: Any = None, mode: str = "r"
    ) -> str:
        told.append((str(name), {**parameters, "expire": expire}))
        return "https://azure.example/signed"


class KeylessStorage(AzureStorage):
    def url(self, *args: Any, **kwargs: Any) -> str:
        raise ValueError("no key to sign with")


@pytest.fixture
def ask(settings):
    told.clear()

    def asked(kind: type, seconds: int | None = 60) -> str | None:
        backend = f"{__name__}.{kind.__name__}"
        settings.STORAGES = {**settings.STORAGES, "cloud": {"BACKEND": backend}}
        settings.AGENT_SESSIONS = {"BLOB_URL_SECONDS": seconds}
        blob = Blob(session_id=uuid4(), storage="cloud", file="a/b", size=1, sha256="0" * 64)
        return signed_url(blob, "image/png", 'inline; filename="a.png"')

    return asked


def test_google_is_told_how_long_and_what_to_say(ask):
    assert ask(GoogleCloudStorage) == "https://google.example/signed"
    assert [
        (
            "a/b",
            {
                "response_type": "image/png",
                "response_disposition": 'inline; filename="a.png"',
                "expiration": timedelta(seconds=60),
            },
        )
    ] == told


def test_azure_is_told_how_long_and_what_to_say(ask):
    assert ask(AzureStorage) == "https://azure.example/signed"
    said = {
        "content_type": "image/png",
        "content_disposition": 'inline; filename="a.png"',
        "cache_control": "private, no-store",
        "expire": 60,
    }
    assert [("a/b", said)] == told


@pytest.mark.parametrize("kind", [PublicStorage, InMemoryStorage])
def test_what_is_public_or_unknown_is_not_asked(ask, kind):
    assert ask(kind) is None
    assert told == []


def test_nobody_is_asked_unless_it_is_wanted(ask):
    assert ask(GoogleCloudStorage, None) is None
    assert told == []


def test_who_cannot_sign_is_read_instead(ask, caplog):
    assert ask(KeylessStorage) is None
    assert "could not be signed" in caplog.text
