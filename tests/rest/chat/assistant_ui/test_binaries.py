"""A frontend gets back what it sent, although the database holds references to it."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from django_agent_sessions.models import Blob
from tests.blobs.conftest import blob_folder, stored
from tests.blobs.messages import picture

from .conftest import rows, ui

__all__ = ["blob_folder", "stored"]

pytestmark = pytest.mark.django_db

HEAD = "data:image/png;base64,"


def attached(data: bytes) -> dict[str, Any]:
    url = HEAD + base64.b64encode(data).decode()
    return {"type": "file", "mediaType": "image/png", "filename": "a.png", "url": url}


def test_an_attachment_is_a_file_here_and_the_same_there(cloud, thread, stored):
    message = ui("user", "Look:", attached(picture()), attached(picture()))
    key = cloud.say(thread, message)
    assert len(stored()) == 2
    assert len(str(rows(thread)[0].message)) < 2000
    (found,) = cloud.messages(thread)
    assert found["content"] == message
    # A client that sends its whole thread again changes nothing.
    assert cloud.say(thread, message) == key
    assert len(rows(thread)) == 1
    assert len(stored()) == 2


def test_what_a_page_has_no_room_for_or_is_lost_breaks_no_client(
    cloud, thread, blob_folder, settings
):
    first, second = (ui("user", "Look:", attached(picture())) for _ in range(2))
    key = cloud.say(thread, first)
    cloud.say(thread, second, parent=key)
    (blob_folder / Blob.objects.latest("id").file).unlink()
    newest, oldest = cloud.messages(thread)
    assert oldest["content"] == first
    assert newest["content"]["parts"][1] == {**second["parts"][1], "url": HEAD}
    settings.AGENT_SESSIONS = {**settings.AGENT_SESSIONS, "MAX_ANSWER_BYTES": 100_000}
    assert {one["content"]["parts"][1]["url"] for one in cloud.messages(thread)} == {HEAD}


def test_a_storage_that_is_down_is_said(cloud, thread, stored):
    cloud.say(thread, ui("user", attached(picture())))
    (file,) = stored()
    file.unlink()
    file.mkdir()
    answer = cloud.ask("get", f"threads/{thread}/messages")
    assert answer.status_code == 503
    assert answer["Retry-After"]


def test_what_only_looks_like_a_reference_is_what_was_said(cloud, thread, stored):
    cloud.say(thread, ui("user", attached(picture())))
    sha256 = Blob.objects.get().sha256
    looks = {"$blob": {"sha256": sha256, "size": 200_000, "media_type": "image/png"}}
    message = ui("user", {"type": "file", "mediaType": "image/png", "url": looks}, looks)
    cloud.say(thread, message)
    newest, _ = cloud.messages(thread)
    assert newest["content"] == message
