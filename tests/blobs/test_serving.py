"""Binaries through the API: whole, in part, known already, elsewhere, missing."""

from __future__ import annotations

import base64
import io
import json
import os
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from asgiref.sync import sync_to_async
from botocore.config import Config
from django.contrib.auth import get_user_model
from django.core.files.storage import FileSystemStorage
from django.db import connections
from django.test import AsyncClient
from django.utils import timezone

from django_agent_sessions.blobs import blob_streams
from django_agent_sessions.exceptions import BlobError, BlobNotFoundError
from django_agent_sessions.governance.redaction import WholeMessage, redact
from django_agent_sessions.models import AuditEvent, Blob, Session, SessionMessage
from django_agent_sessions.store import SessionStore
from tests.admin.people import grant
from tests.rest.conftest import Talk, client_of
from tests.s3 import bucket_fixture  # noqa: F401 - a fixture

from .messages import PATH, document, image, media, picture, unread, user

pytestmark = pytest.mark.django_db


@pytest.fixture
def data() -> bytes:
    return picture()


@pytest.fixture
def talk(ada, blob_folder) -> Talk:
    return Talk(ada)


@pytest.fixture
def api(ada):
    return client_of(ada)


@pytest.fixture
def said(talk, data) -> str:
    """The URL of a message with a picture."""
    return str(talk.say(user(image(data))))


@pytest.fixture
def in_bucket(settings, bucket):
    """Sends large binaries to S3."""
    backend = {"BACKEND": "tests.s3.QuickStorage", "OPTIONS": bucket.options}
    settings.STORAGES = {**settings.STORAGES, "s3": backend}
    settings.AGENT_SESSIONS = {"BLOB_STORAGE": "s3"}
    return bucket


def test_a_picture_is_shown_from_its_file(api, said, data):
    part = api.get(said).json()["parts"][1]
    assert (part["kind"], part["media_type"], part["size"]) == ("image", "image/png", len(data))
    answer = api.get(part["url"])
    assert answer.status_code == 200
    assert b"".join(answer.streaming_content) == data
    assert answer["Content-Type"] == "image/png"
    assert answer["Content-Length"] == str(len(data))
    assert answer["Content-Disposition"].startswith("inline")
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert answer["Accept-Ranges"] == "bytes"
    assert set(answer["Cache-Control"].split(", ")) == {"private", "no-store"}
    downloaded = api.get(f"{part['url']}&download=true")
    assert downloaded["Content-Disposition"].startswith("attachment")
    assert b"".join(downloaded) == data


@pytest.mark.parametrize(
    ("asked", "start", "stop"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=5-99999", 5, 100_000),
        ("bytes=150000-", 150_000, None),
        ("bytes=-10", -10, None),
        ("bytes=199999-99999999", 199_999, None),
        ("Bytes= 3-4 ", 3, 5),
    ],
)
@pytest.mark.parametrize("large", [True, False])
def test_a_part_is_given(api, talk, asked, start, stop, large, settings):
    if not large:
        settings.AGENT_SESSIONS = {"BLOB_STORAGE": None}
    data = picture()
    answer = media(api, talk.say(user(image(data))), headers={"Range": asked})
    wanted = data[start:stop]
    begin = len(data) + start if start < 0 else start
    assert answer.status_code == 206
    assert answer.all == wanted
    assert answer["Content-Length"] == str(len(wanted))
    assert answer["Content-Range"] == f"bytes {begin}-{begin + len(wanted) - 1}/{len(data)}"
    assert answer["Content-Type"] == "image/png"


@pytest.mark.parametrize(
    "asked",
    ["bytes=0-1,5-6", "bytes=5-2", "bytes=-", "bytes=a-b", "items=0-1", "bytes 0-1", "",
     f"bytes=0-{'9' * 5000}", "bytes=٣-٤"],
)  # fmt: skip
def test_what_is_no_single_part_is_answered_whole(api, said, data, asked):
    answer = media(api, said, headers={"Range": asked})
    assert answer.status_code == 200
    assert answer.all == data


@pytest.mark.parametrize("asked", ["bytes=200000-", "bytes=999999-999999", "bytes=-0"])
def test_a_part_behind_the_end_is_an_error_that_tells_the_size(api, said, data, asked):
    answer = media(api, said, headers={"Range": asked})
    assert answer.status_code == 416
    assert answer["Content-Range"] == f"bytes */{len(data)}"
    assert answer["Content-Type"] == "application/problem+json"


def test_a_part_is_given_only_of_what_the_client_has(api, said, data):
    etag = media(api, said)["ETag"]
    for condition, code in [(etag, 206), ('"other"', 200), (f"W/{etag}", 200), ("yesterday", 200)]:
        answer = media(api, said, headers={"Range": "bytes=0-9", "If-Range": condition})
        assert answer.status_code == code
        assert answer.all == (data[:10] if code == 206 else data)


def test_what_a_client_has_is_not_sent_again_and_tells_nothing_of_the_content(api, said, data):
    blob = Blob.objects.get()
    etag = media(api, said)["ETag"]
    assert blob.sha256 not in etag
    assert not etag.startswith("W/")
    for known in (etag, f"W/{etag}", "*", f'"other", {etag}'):
        answer = media(api, said, headers={"If-None-Match": known})
        assert answer.status_code == 304
        assert answer.all == b""
        assert answer["ETag"] == etag
    assert media(api, said, headers={"If-None-Match": '"other"'}).status_code == 200


def test_a_stranger_learns_nothing_by_an_entity_tag(said, api, bob):
    etag = media(api, said)["ETag"]
    for headers in ({}, {"If-None-Match": etag}, {"If-None-Match": "*"}, {"Range": "bytes=9-"}):
        assert media(client_of(bob), said, headers=headers).status_code == 404


def test_the_headers_alone_need_no_file(api, said, data, stored):
    stored()[0].unlink()
    answer = api.head(f"{said}media/?path={json.dumps(PATH)}")
    assert answer.status_code == 200
    assert answer["Content-Length"] == str(len(data))
    assert answer["Accept-Ranges"] == "bytes"
    assert answer.content == b""


@pytest.mark.django_db(transaction=True)
async def test_it_is_streamed_under_asgi(blob_folder):
    data = picture(300_000)
    ada = await get_user_model().objects.acreate(username="ada")
    talk = await sync_to_async(Talk)(ada)
    said = await sync_to_async(talk.say)(user(image(data)))
    client: Any = AsyncClient()
    await client.aforce_login(ada)
    query = {"path": json.dumps(PATH)}
    answer = await client.get(f"{said}media/", query)
    assert answer.is_async
    pieces = [piece async for piece in answer]
    assert b"".join(pieces) == data
    assert max(map(len, pieces)) < len(data) / 2
    part = await client.get(f"{said}media/", query, headers={"Range": "bytes=7-9"})
    assert part.status_code == 206
    assert b"".join([piece async for piece in part]) == data[7:10]
    left = await client.get(f"{said}media/", query)
    left.close()
    # The thread that serves sync code outlives the test.
    await sync_to_async(connections.close_all)()


def test_a_large_file_is_never_whole_in_memory(api, talk, data):
    answer = unread(api, talk.say(user(document(b"%PDF-" + os.urandom(1_000_000)))))
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"].endswith('.pdf"')
    assert max(map(len, answer)) <= 64 * 1024


def test_a_drawing_of_openai_has_an_address(api, ada, blob_folder, data):
    store = SessionStore(owner=ada)
    agent = store.agents.open(store.create("drawing"), "default", dialect="openai")
    text = base64.b64encode(data).decode()
    drawn = {"type": "image_generation_call", "id": "1", "status": "completed", "result": text}
    said = {
        "type": "function_call_output",
        "call_id": "2",
        "output": f"data:image/png;base64,{text}",
    }
    for item in (drawn, said):
        key = store.append(agent, item).id
        (part,) = api.get(f"/api/messages/{key}/").json()["parts"][-1]["parts"]
        assert (part["kind"], part["size"]) == ("image", len(data))
        assert b"".join(api.get(part["url"])) == data


def test_compression_leaves_parts_alone(api, talk, settings):
    said = talk.say(user(document(b"%PDF-" + bytes(50_000))))
    gzip = "django.middleware.gzip.GZipMiddleware"
    settings.MIDDLEWARE = [gzip, *settings.MIDDLEWARE]
    headers = {"Accept-Encoding": "gzip"}
    whole = media(api, said, headers=headers)
    assert whole["Content-Encoding"] == "gzip"
    part = media(api, said, headers={**headers, "Range": "bytes=0-9999"})
    assert (part.status_code, len(part.all)) == (206, 10_000)


def test_a_missing_file_is_said_and_the_message_is_read(api, said, stored):
    stored()[0].unlink()
    answer = media(api, said)
    assert answer.status_code == 404
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["title"] == "The file is missing"
    assert answer.json()["code"] == "file_missing"
    assert str(Blob.objects.get().sha256) not in answer.content.decode()
    assert api.get(said).json()["parts"][1]["kind"] == "image"


def test_a_missing_row_is_said(api, said):
    Blob.objects.all().delete()
    assert media(api, said).json()["code"] == "file_missing"


@pytest.mark.parametrize("damage", [b"short", b"\x89PNG\r\n\x1a\n" + bytes(10_000 - 8)])
def test_a_damaged_file_is_never_given_as_if_it_were_whole(api, talk, stored, damage):
    said = talk.say(user(image(picture(10_000))))
    stored()[0].write_bytes(damage)
    answer = media(api, said)
    assert answer.status_code == 404
    assert answer.json()["code"] == "file_missing"


def test_a_large_damaged_file_breaks_off(api, said, stored, data):
    (file,) = stored()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    answer = unread(api, said)
    sent = []
    with pytest.raises(BlobNotFoundError, match="damaged"):
        sent.extend(answer)
    assert len(b"".join(sent)) < int(answer["Content-Length"])


def test_a_file_that_is_no_image_any_more_is_not_shown(api, said, stored, data):
    stored()[0].write_bytes(b"<script>" + data[8:])
    answer = unread(api, said)
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"].startswith("attachment")
    with pytest.raises(BlobNotFoundError):
        list(answer)


class TornFile(io.FileIO):
    """A file that fails at its second piece."""

    def read(self, size: int | None = -1, /) -> Any:
        if self.tell():
            raise OSError("torn")
        return super().read(size)


class TornStorage(FileSystemStorage):
    """Has files that are torn."""

    def _open(self, name: str, mode: str = "rb") -> Any:
        return TornFile(self.path(name))


def test_a_storage_that_fails_meanwhile_breaks_off(api, talk, blob_folder, settings, data):
    texts = [talk.say(user(document(b"%PDF-" + bytes(size)))) for size in (500_000, 10_000)]
    options = {"BACKEND": f"{__name__}.TornStorage", "OPTIONS": {"location": str(blob_folder)}}
    settings.STORAGES = {**settings.STORAGES, "blobs": options}
    # Two pieces are read before anything is sent: one is kept back until the next is there.
    assert media(api, texts[0]).status_code == 503
    answer = unread(api, texts[0], headers={"Range": "bytes=0-400000"})
    sent = []
    with pytest.raises(BlobError):
        sent.extend(answer)
    assert len(b"".join(sent)) == 64 * 1024
    assert len(media(api, texts[1]).all) == 10_005


def test_a_storage_that_the_project_has_no_more_is_one_that_does_not_answer(
    api, said, settings, caplog
):
    settings.STORAGES = {key: made for key, made in settings.STORAGES.items() if key != "blobs"}
    for seconds in (None, 60):
        settings.AGENT_SESSIONS = {"BLOB_URL_SECONDS": seconds}
        assert media(api, said).status_code == 503
    assert "blobs" in caplog.text


def test_a_storage_that_is_down_is_asked_again_later(api, said, stored, caplog):
    (file,) = stored()
    file.unlink()
    file.mkdir()
    answer = media(api, said)
    assert answer.status_code == 503
    assert int(answer["Retry-After"]) > 0
    assert answer.json()["code"] == "storage_unavailable"
    assert str(Blob.objects.get().pk) in caplog.text
    assert api.get(said).status_code == 200


def test_all_that_reads_files_is_asked_again_later_while_their_storage_is_down(
    api, talk, said, stored
):
    (file,) = stored()
    file.unlink()
    file.mkdir()
    found = {"find": "secret", "dry_run": True}
    for answer in (
        api.get(f"{talk.url}export/", {"as": "jsonl"}),
        api.post(f"{talk.url}redact/", found, format="json"),
        api.post(f"{said}redact/", found, format="json"),
        api.post(f"{talk.url}fork/", {}, format="json"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (503, "storage_unavailable")
        assert int(answer["Retry-After"]) > 0


def test_an_export_says_which_file_is_missing_in_the_file_and_in_the_log(
    api, talk, said, stored, caplog
):
    (file,) = stored()
    file.unlink()
    answer = api.get(f"{talk.url}export/", {"as": "jsonl"})
    (line,) = b"".join(answer).splitlines()
    (blob,) = json.loads(line)["blobs"]
    assert (blob["media_type"], blob["data"]) == ("image/png", None)
    (told,) = [entry for entry in caplog.messages if entry.startswith("Exported without")]
    assert str(Blob.objects.get().pk) in told


def test_what_is_elsewhere_shows_its_size_and_not_its_hash(api, talk):
    data = picture()
    said = talk.say(user({"novelty": {"bytes": data}}))
    found = api.get(said, {"raw": "true"}).json()
    told = {"bytes": len(data), "media_type": "image/png"}
    assert found["parts"][1]["data"] == {"novelty": {"bytes": told}}
    raw = found["raw"]["content"][1]["novelty"]["bytes"]
    assert raw == {"$blob": {"size": len(data), "media_type": "image/png"}}
    assert Blob.objects.get().sha256 not in json.dumps(found)


def test_a_reading_by_another_is_recorded_and_ones_own_is_not(api, said, bob):
    assert media(api, said).status_code == 200
    assert not AuditEvent.objects.exists()
    grant(bob, "view_session", "read_transcript")
    assert media(client_of(bob), said).status_code == 404
    answer = media(client_of(bob), said, query={"scope": "all"})
    assert answer.status_code == 200
    event = AuditEvent.objects.get()
    assert (event.action, event.details["view"]) == ("read", "media")


@pytest.mark.parametrize("state", ["archived_at", "expires_at", "legal_hold"])
def test_the_session_has_the_rules_that_its_messages_have(api, said, data, state, talk):
    value = True if state == "legal_hold" else timezone.now() - timedelta(days=1)
    Session.objects.filter(pk=talk.session.id).update(**{state: value})
    assert api.get(said).status_code == media(api, said).status_code == 200


@pytest.mark.django_db(transaction=True)
def test_after_a_redaction_there_is_nothing(api, talk, data, stored):
    said = talk.say(user(image(data)))
    etag = media(api, said)["ETag"]
    redact(talk.session.id, WholeMessage(SessionMessage.objects.get().pk), reason="a ticket")
    assert stored() == []
    for headers in ({}, {"If-None-Match": etag}, {"Range": "bytes=0-"}):
        assert media(api, said, headers=headers).status_code == 404


# --- S3 ---------------------------------------------------------------------------------------


def test_a_small_object_of_a_bucket_is_read_in_part(api, ada, in_bucket, data):
    said = Talk(ada).say(user(image(data)))
    part = media(api, said, headers={"Range": "bytes=100000-100009"})
    assert part.all == data[100_000:100_010]
    assert part["Content-Range"] == f"bytes 100000-100009/{len(data)}"
    assert media(api, said).all == data
    (key,) = in_bucket.found()
    in_bucket.client.put_object(Bucket=in_bucket.name, Key=key, Body=b"short")
    assert media(api, said).status_code == 404
    assert media(api, said, headers={"Range": "bytes=10-"}).status_code == 404
    in_bucket.client.delete_object(Bucket=in_bucket.name, Key=key)
    assert media(api, said).status_code == 404


def test_a_large_object_is_given_whole_since_the_storage_downloads_all_of_it_for_each_part(
    api, ada, in_bucket, data, monkeypatch
):
    monkeypatch.setattr(blob_streams, "MAX_DOWNLOADED_BYTES", len(data) - 1)
    said = Talk(ada).say(user(image(data)))
    with in_bucket.requests() as sent:
        answer = media(api, said, headers={"Range": "bytes=100000-100009"})
    assert (answer.status_code, answer.all) == (200, data)
    assert answer["Accept-Ranges"] == "none"
    assert "Content-Range" not in answer
    assert len([request for request in sent if request.startswith("GET")]) == 1


def signing(settings, in_bucket, seconds: int = 90, **options) -> None:
    settings.AGENT_SESSIONS = {**settings.AGENT_SESSIONS, "BLOB_URL_SECONDS": seconds}
    chosen = {**in_bucket.options, **options}
    settings.STORAGES = {
        **settings.STORAGES,
        "s3": {"BACKEND": "tests.s3.QuickStorage", "OPTIONS": chosen},
    }


@pytest.mark.django_db(transaction=True)
def test_a_browser_is_sent_to_the_bucket_for_a_while(api, ada, bob, in_bucket, data, settings):
    signing(settings, in_bucket, signature_version="s3v4")
    talk = Talk(ada)
    said = talk.say(user(image(data)))
    answer = media(api, said)
    assert answer.status_code == 302
    assert "no-store" in answer["Cache-Control"]
    assert "private" in answer["Cache-Control"]
    assert answer["Referrer-Policy"] == "no-referrer"
    assert answer.all == b""
    query = parse_qs(urlsplit(answer["Location"]).query)
    assert query["X-Amz-Expires"] == ["90"]
    assert query["response-content-type"] == ["image/png"]
    fetched = httpx.get(answer["Location"])
    assert fetched.content == data
    assert fetched.headers["Content-Type"] == "image/png"
    assert fetched.headers["Content-Disposition"].startswith("inline")

    assert media(client_of(bob), said).status_code == 404
    grant(bob, "view_session", "read_transcript")
    assert media(client_of(bob), said, query={"scope": "all"}).status_code == 302
    assert AuditEvent.objects.filter(details__view="media").count() == 1

    head = api.head(f"{said}media/?path={json.dumps(PATH)}")
    assert (head.status_code, head["Content-Length"]) == (200, str(len(data)))

    redact(talk.session.id, WholeMessage(SessionMessage.objects.get().pk), reason="a ticket")
    assert httpx.get(answer["Location"]).status_code in (403, 404)


@pytest.mark.parametrize("form", ["svg", "png"])
def test_nothing_runs_from_the_buckets_own_origin(api, ada, in_bucket, settings, form):
    signing(settings, in_bucket)
    hostile = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>" + bytes(9000)
    answer = media(api, Talk(ada).say(user(image(hostile, form))))
    fetched = httpx.get(answer["Location"])
    assert fetched.content == hostile
    assert fetched.headers["Content-Type"] == "application/octet-stream"
    assert fetched.headers["Content-Disposition"].startswith("attachment")


@pytest.mark.parametrize("options", [{"querystring_auth": False}, {"custom_domain": "cdn.example"}])
def test_a_bucket_whose_urls_do_not_say_enough_is_read_by_django(
    api, ada, in_bucket, settings, data, options
):
    signing(settings, in_bucket, **options)
    answer = media(api, Talk(ada).say(user(image(data))))
    assert answer.status_code == 200
    assert answer.all == data


def test_a_folder_signs_nothing(api, talk, settings, data):
    settings.AGENT_SESSIONS = {**settings.AGENT_SESSIONS, "BLOB_URL_SECONDS": 60}
    assert media(api, talk.say(user(image(data)))).all == data


def test_a_bucket_that_does_not_answer_is_said(api, ada, in_bucket, settings, data):
    said = Talk(ada).say(user(image(data)))
    once = Config(retries={"total_max_attempts": 1})
    broken = {**in_bucket.options, "endpoint_url": "http://127.0.0.1:9", "client_config": once}
    settings.STORAGES = {
        **settings.STORAGES,
        "s3": {"BACKEND": "tests.s3.QuickStorage", "OPTIONS": broken},
    }
    answer = media(api, said)
    assert answer.status_code == 503
    assert answer["Retry-After"]
