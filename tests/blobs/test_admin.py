"""Binaries in the admin: shown, served, missing; whatever happened to them, the page opens."""

from __future__ import annotations

import html
import json
import re

import pytest
from django.db import connection
from django.db.models import TextField
from django.db.models.functions import Cast
from django.test.utils import CaptureQueriesContext
from django.utils.html import escape

from django_agent_sessions.content.dialects import STRANDS
from django_agent_sessions.interchange.markdown import export_markdown
from django_agent_sessions.models import AuditEvent, Blob, Session, SessionMessage
from tests.admin.people import staff
from tests.admin.transcripts import page_url, shown
from tests.models.test_fields import set_raw

from .messages import document, image, media, picture, user

pytestmark = pytest.mark.django_db


@pytest.fixture
def reader(client):
    found = staff("reader", "view_session", "read_transcript")
    client.force_login(found)
    return found


@pytest.fixture
def talker(session, store, blob_folder):
    return store.agents.open(session, "planner", dialect=STRANDS)


def endpoint(name: str = "") -> str:
    key = SessionMessage.objects.latest("id").pk
    return f"{page_url('session-1').removesuffix('change/')}messages/{key}/{name}"


def test_a_picture_is_on_the_page_and_comes_from_its_file(client, reader, talker, store):
    data = picture()
    store.append(talker, user(image(data)))
    page = shown(client, page_url("session-1"))
    [source] = re.findall(r'<img [^>]*src="([^"]*)"', page)
    answer = client.get(html.unescape(source))
    assert b"".join(answer) == data
    assert answer["Content-Type"] == "image/png"
    assert answer["Content-Disposition"].startswith("inline")
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert "private" in answer["Cache-Control"]
    part = media(client, endpoint(), headers={"Range": "bytes=-5"})
    assert (part.status_code, part.all) == (206, data[-5:])
    assert media(client, endpoint(), headers={"Range": "bytes=999999-"}).status_code == 416


def test_a_document_is_a_link_with_its_size(client, reader, talker, store):
    data = b"%PDF-" + bytes(20_475)
    store.append(talker, user(document(data, name='a"<b>.pdf')))
    page = shown(client, page_url("session-1"))
    assert "application/pdf · 20.0\xa0KB" in page
    [link] = re.findall(r'href="([^"]*/media/[^"]*)"', page)
    answer = client.get(html.unescape(link))
    assert b"".join(answer) == data
    assert re.fullmatch(r'attachment; filename="[0-9a-f-]+\.pdf"', answer["Content-Disposition"])


@pytest.mark.parametrize("harm", ["missing", "damaged", "no row"])
def test_a_lost_file_is_said_and_the_conversation_opens(
    client, reader, talker, store, stored, harm
):
    store.append(talker, user(image(picture()), document(b"%PDF-" + bytes(20_000))))
    if harm == "no row":
        Blob.objects.all().delete()
    for file in stored():
        if harm == "missing":
            file.unlink()
        elif harm == "damaged":
            file.write_bytes(b"damaged")
    page = shown(client, page_url("session-1"))
    assert "Look:" in page
    assert 'data-as-lost="The file is missing' in page
    for number in (1, 2):
        answer = media(client, endpoint(), "content", number)
        assert answer.status_code == 404
        assert b"missing" in answer.all
        assert answer["Content-Type"].startswith("text/plain")


def test_a_storage_that_is_down_is_said_and_the_conversation_opens(
    client, reader, talker, store, stored, caplog
):
    store.append(talker, user(image(picture())))
    (file,) = stored()
    file.unlink()
    file.mkdir()
    assert "Look:" in shown(client, page_url("session-1"))
    answer = media(client, endpoint())
    assert answer.status_code == 503
    assert answer["Retry-After"]
    assert b"is unavailable" in answer.all
    assert str(Blob.objects.get().pk) in caplog.text


def test_an_export_without_the_file_of_a_binary_says_so_in_its_last_line(
    admin_client, talker, store, stored
):
    store.append(talker, user(image(picture())))
    (file,) = stored()
    file.unlink()

    answer = admin_client.post(
        page_url("session-1").replace("change/", "export/"), {"form": "jsonl"}
    )

    session, problems = map(json.loads, b"".join(answer.streaming_content).splitlines())
    assert session["blobs"][0]["data"] is None
    (problem,) = problems["problems"]
    assert problem["session_id"] == "session-1"
    assert "missing" in problem["problem"]
    assert problem["problem"].endswith("; the rest of it is here")


def test_what_is_stored_is_shown_without_hashes(client, reader, talker, store):
    store.append(talker, user(image(picture(20_000)), {"novelty": {"bytes": picture(30_000)}}))
    page = shown(client, page_url("session-1"))
    assert "binary, 29.3\xa0KB" in page
    raw = client.get(endpoint("raw/")).content.decode()
    download = client.get(endpoint("raw/"), {"download": 1}).content.decode()
    assert json.loads(raw) == json.loads(download)
    kept = json.loads(raw)["content"][1]["image"]["source"]["bytes"]
    assert kept == {"$blob": {"size": 20_000, "media_type": "image/png"}}
    for blob in Blob.objects.all():
        assert not any(blob.sha256 in text for text in (page, raw, download))


def test_what_is_corrupt_is_shown_without_hashes_too(client, reader, talker, store):
    store.append(talker, user(image(picture(20_000))))
    sha256 = Blob.objects.get().sha256
    set_raw(0, SessionMessage.objects.values_list(Cast("message", TextField())).get()[0] + "}")
    text = client.get(endpoint("text/")).content.decode()
    markdown = "".join(export_markdown(Session.objects.get()))
    for shown_text in (shown(client, page_url("session-1")), text, markdown):
        assert "size" in shown_text
        assert sha256 not in shown_text


def test_who_may_not_read_gets_no_file(client, talker, store):
    store.append(talker, user(image(picture())))
    viewer = staff("viewer", "view_session")
    client.force_login(viewer)
    assert media(client, endpoint()).status_code == 404
    assert not AuditEvent.objects.exists()
    client.force_login(staff("reader", "view_session", "read_transcript"))
    etag = media(client, endpoint())["ETag"]
    assert AuditEvent.objects.get().details["page"] == "media"
    client.force_login(viewer)
    assert media(client, endpoint(), headers={"If-None-Match": etag}).status_code == 404


def test_no_page_reads_a_file(client, reader, talker, store, stored):
    store.append(talker, user({"text": "only words"}))
    shown(client, page_url("session-1"))
    with CaptureQueriesContext(connection) as words:
        shown(client, page_url("session-1"))
    store.append(talker, user(*(image(picture(10_000)) for _ in range(10))))
    for file in stored():
        file.unlink()
    with CaptureQueriesContext(connection) as pictures:
        page = shown(client, page_url("session-1"))
    assert page.count("<img loading") == 10
    assert len(pictures) == len(words)


def test_a_picture_that_claims_to_be_one_is_no_image_on_the_page(client, reader, talker, store):
    hostile = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>" + bytes(9000)
    store.append(talker, user(image(hostile), image(hostile, "svg")))
    page = shown(client, page_url("session-1"))
    assert "<img" not in page
    assert escape("onload='alert(1)'") not in page
    for number in (1, 2):
        answer = media(client, endpoint(), "content", number)
        assert answer.all == hostile
        assert answer["Content-Type"] == "application/octet-stream"
        assert answer["Content-Disposition"].startswith("attachment")
        assert answer["Content-Security-Policy"] == "sandbox; default-src 'none'"


def test_a_redaction_says_which_files_it_could_not_look_into(client, talker, store, stored):
    client.force_login(staff("redactor", "view_session", "read_transcript", "redact"))
    store.append(talker, user(image(picture()), {"text": "a secret"}))
    for file in stored():
        file.unlink()
    page = page_url("session-1").replace("/change/", "/redact/")
    told = "1 file was not searched completely: it is missing from its storage"

    nothing = client.post(page, {"step": "preview", "what": "text", "text": "unsaid"})
    assert told in nothing.content.decode()
    asked = client.post(page, {"step": "preview", "what": "text", "text": "secret"})
    assert told in asked.content.decode()
    [seal] = re.findall(r'name="seal" value="([^"]*)"', asked.content.decode())
    sure = {"step": "confirm", "what": "text", "text": "secret", "seal": seal, "reason": "asked"}
    done = client.post(page, sure, follow=True).content.decode()
    assert "1 place was redacted." in done
    assert told in done
