"""Images and documents are what their bytes say, and nothing that is elsewhere is fetched."""

from __future__ import annotations

import base64
import re
from uuid import uuid4

import pytest

from django_agent_sessions.content.dialects import STRANDS
from tests.admin.transcripts import call, page_url, said, shown

from .parts import PNG, endpoint, image, media

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0 jpeg", "image/jpeg"),
        (b"GIF89a gif", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
    ],
)
def test_an_image_is_shown_by_its_first_bytes(client, reader, talker, store, data, media_type):
    store.append(talker, said("user", image(data)))

    page = shown(client, page_url("session-1"))
    [source] = re.findall(r'<img [^>]*src="([^"]*)"', page)
    answer = client.get(source)

    assert answer.content == data
    assert answer["Content-Type"] == media_type
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert answer["Content-Disposition"].startswith("inline")
    assert "no-store" in answer["Cache-Control"]


@pytest.mark.parametrize("file_format", ["png", "svg", "html"])
@pytest.mark.parametrize(
    "data", [b"<svg onload='alert(1)'/>", b"<script>alert(1)</script>", b"", b"\x89PN"]
)
def test_what_only_claims_to_be_an_image_is_a_download(
    client, reader, talker, store, data, file_format
):
    store.append(talker, said("user", image(data, file_format)))

    page = shown(client, page_url("session-1"))
    answer = media(client, "content", 0)

    assert "<img" not in page
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"].startswith("attachment")
    assert answer["Content-Security-Policy"] == "sandbox; default-src 'none'"


def test_documents_are_links_with_type_and_size(client, reader, talker, store):
    name = 'a"<b>.pdf'
    document = {"format": "pdf", "name": name, "source": {"bytes": b"%PDF" + b"x" * 2044}}
    store.append(talker, said("user", {"document": document}))

    page = shown(client, page_url("session-1"))
    answer = media(client, "content", 0, download=1)

    assert "a&quot;&lt;b&gt;.pdf" in page
    assert "application/pdf · 2.0\xa0KB" in page
    assert answer["Content-Type"] == "application/octet-stream"
    assert re.fullmatch(r'attachment; filename="[0-9a-f-]+\.pdf"', answer["Content-Disposition"])


def test_nothing_that_is_elsewhere_is_fetched(client, reader, session, store):
    agent = store.agents.open(session)
    for url in ("https://tracker.example/a.png", "javascript:alert(1)", "ftp://x.example/a"):
        store.append(
            agent, {"role": "user", "content": [{"type": "input_image", "image_url": url}]}
        )
    text = "![pixel](https://tracker.example/b.png) <img src=https://tracker.example/c.png>"
    store.append(agent, {"role": "user", "content": text})

    page = shown(client, page_url("session-1"))

    assert "<img" not in page
    assert 'src="https:' not in page
    assert not re.search(r'href="(javascript|ftp):', page)
    assert "external, at tracker.example" in page


def test_what_tools_returned_is_shown_whatever_it_is(client, reader, talker, session, store):
    contents = [{"json": {"rows": [1]}}, image(PNG), {"novelty": "unheard of"}]
    answer = {"toolResult": {"toolUseId": "1", "status": "success", "content": contents,
                             "structuredContent": {"beside": "the rest"}}}  # fmt: skip
    store.append(talker, said("assistant", call("1", "f")))
    store.append(talker, said("user", answer))
    agent = store.agents.open(session)
    url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    screen = {"type": "computer_screenshot", "image_url": url}
    for item in (
        {"type": "computer_call_output", "call_id": "2", "output": screen},
        {"type": "function_call_output", "call_id": "3", "output": '{"parsed": "json"}'},
        {"type": "function_call_output", "call_id": "4", "output": "x" * 7000},
        {"type": "compaction", "encrypted_content": "an odd item"},
        {"type": "message", "role": "user", "content": []},
    ):
        store.append(agent, item)

    page = shown(client, page_url("session-1"))

    for words in ("rows", "unheard of", "the rest", "parsed", "an odd item", "(empty)"):
        assert words in page
    for source in re.findall(r'<img [^>]*src="([^"]*)"', page):
        assert client.get(source).content == PNG
    assert page.count("<img") == 2
    assert "Shortened from 7000 characters" in page


@pytest.mark.parametrize(
    "path", ["", "null", "{}", "[", "[[]]", "[1.5]", "[null]", '["content",7]', "[" * 9000]
)
def test_an_address_that_is_none_is_not_found(client, reader, talker, store, path):
    store.append(talker, said("user", image(PNG)))

    for name in ("media", "text"):
        assert client.get(endpoint(name), {"path": path}).status_code == 404


@pytest.mark.parametrize("name", ["media", "raw", "text"])
def test_another_sessions_message_is_not_found_under_this_ones_url(
    client, reader, talker, store, name
):
    other = store.agents.open(store.open("other"), dialect=STRANDS)
    store.append(other, said("user", image(PNG)))

    query = {"path": '["content",0]'}
    assert client.get(endpoint(name), query).status_code == 404
    assert client.get(endpoint(name, uuid4()), query).status_code == 404
    if name in ("media", "raw"):
        assert client.get(endpoint(name, session_id="other"), query).status_code == 200
