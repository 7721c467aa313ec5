"""What is shown of messages beside plain text: media, masks, originals, and hostile things."""

from __future__ import annotations

import base64
import builtins
import html
import json
import re
from datetime import timedelta
from uuid import uuid4

import pytest
from django.utils import timezone

from django_agent_sessions import audit
from django_agent_sessions import redaction as redacting
from django_agent_sessions.admin.transcript import wording
from django_agent_sessions.admin.transcript.links import citations, remote
from django_agent_sessions.models import AuditEvent, SessionMessage
from django_agent_sessions.records import AgentState
from django_agent_sessions.transcripts import STRANDS
from tests.test_fields import set_raw

from .people import staff
from .transcripts import call, page_url, result, said, shown

pytestmark = pytest.mark.django_db

PNG = b"\x89PNG\r\n\x1a\n and pixels"
KEPT = {"REDACTION_KEEP_ORIGINAL": True, "REDACTION_ORIGINAL_TTL": 3600}


@pytest.fixture
def reader(client):
    user = staff("reader", "view_session", "read_transcript")
    client.force_login(user)
    return user


@pytest.fixture
def talker(session, store):
    return store.open_agent(session, "planner", dialect=STRANDS)


def image(data, file_format="png"):
    return {"image": {"format": file_format, "source": {"bytes": data}}}


def endpoint(name: str, message=None, session_id: str = "session-1") -> str:
    key = message or SessionMessage.objects.order_by("-id")[0].pk
    return f"{page_url(session_id).removesuffix('change/')}messages/{key}/{name}/"


def media(client, *path, **query):
    return client.get(endpoint("media"), {"path": json.dumps(path), **query})


# --- media -------------------------------------------------------------------------------------


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
    agent = store.open_agent(session)
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
    assert "elsewhere, at tracker.example" in page


def test_what_tools_returned_is_shown_whatever_it_is(client, reader, talker, session, store):
    contents = [{"json": {"rows": [1]}}, image(PNG), {"novelty": "unheard of"}]
    answer = {"toolResult": {"toolUseId": "1", "status": "success", "content": contents,
                             "structuredContent": {"beside": "the rest"}}}  # fmt: skip
    store.append(talker, said("assistant", call("1", "f")))
    store.append(talker, said("user", answer))
    agent = store.open_agent(session)
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
    assert "it has 7000 characters" in page


def test_a_corrupt_text_can_be_shown_whole(client, reader, talker, store):
    store.append(talker, said("user", "x"))
    set_raw(0, '{"half": "' + "y" * 30_000 + " the end")

    page = shown(client, page_url("session-1"))
    [link] = re.findall(r'href="([^"]*/text/\?path=[^"]*)"', page)

    assert "the end" not in page
    assert client.get(link).content.endswith(b" the end")
    assert client.get(endpoint("raw")).content.endswith(b" the end")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://user:pw@shop.example:8/a", ("https://user:pw@shop.example:8/a", "shop.example")),
        ("s3://bucket/key", ("", "s3://bucket")),
        ("javascript:alert(1)", ("", "javascript://")),
        ("http://[broken", ("", "http://[broken")),
        ("no address", ("", "no address")),
    ],
)
def test_only_addresses_of_the_web_are_links(url, expected):
    assert remote(url) == expected


def test_sources_are_named_by_what_they_tell():
    sources = [{"title": "a", "url": "https://x.example"}, {"url": "https://y.example"}, {}, "odd"]

    assert citations(sources) == [
        ("a", "https://x.example"),
        ("y.example", "https://y.example"),
        ("source", ""),
    ]
    assert citations("odd") == []


@pytest.mark.parametrize(
    "path", ["", "null", "{}", "[", "[[]]", "[1.5]", "[null]", '["content",7]', "[" * 9000]
)
def test_an_address_that_is_none_is_not_found(client, reader, talker, store, path):
    store.append(talker, said("user", image(PNG)))

    for name in ("media", "text"):
        assert client.get(endpoint(name), {"path": path}).status_code == 404


@pytest.mark.parametrize("name", ["media", "raw", "text", "original"])
def test_another_sessions_message_is_not_found_under_this_ones_url(
    client, reader, talker, store, name
):
    other = store.open_agent(store.open("other"), dialect=STRANDS)
    store.append(other, said("user", image(PNG)))

    query = {"path": '["content",0]'}
    assert client.get(endpoint(name), query).status_code == 404
    assert client.get(endpoint(name, uuid4()), query).status_code == 404
    if name in ("media", "raw"):
        assert client.get(endpoint(name, session_id="other"), query).status_code == 200


def test_the_redacted_version_is_what_every_endpoint_gives(client, reader, talker, store, settings):
    settings.AGENT_SESSIONS = KEPT
    store.append(talker, said("user", "the secret", image(PNG)))
    redacted = said("user", "[REDACTED]", "[REDACTED]")
    SessionMessage.objects.update(redact_message=redacted, redacted_at=timezone.now(), text="")

    assert media(client, "content", 1).status_code == 404
    assert client.get(endpoint("text"), {"path": '["content",0]'}).content == b"[REDACTED]"
    for query in ({}, {"download": 1}):
        raw = client.get(endpoint("raw"), query).content.decode()
        assert json.loads(raw) == redacted
    assert "the secret" not in shown(client, page_url("session-1"))


# --- raw ---------------------------------------------------------------------------------------


def test_raw_json_is_plain_text_and_its_download_is_what_is_stored(client, reader, talker, store):
    store.append(talker, said("user", "<script>alert(1)</script> \ud800 \x00"))

    raw, download = client.get(endpoint("raw")), client.get(endpoint("raw"), {"download": 1})

    assert raw["Content-Type"] == "text/plain; charset=utf-8"
    assert raw["X-Content-Type-Options"] == "nosniff"
    assert '\n  "content": [' in raw.content.decode()
    assert download["Content-Type"] == "application/json"
    assert download["Content-Disposition"].startswith("attachment")
    assert json.loads(download.content)["content"][0]["text"].endswith("\ud800 \x00")
    pages = [event.details["page"] for event in AuditEvent.objects.order_by("id")]
    assert pages == ["raw", "download"]


def test_of_a_large_payload_only_the_beginning_is_shown(client, reader, talker, store):
    store.append(talker, said("user", "word " * 1_000_000))

    raw, download = client.get(endpoint("raw")), client.get(endpoint("raw"), {"download": 1})

    assert len(raw.content) < 250_000
    assert b"Download it to see the rest" in raw.content
    assert len(download.content) > 5_000_000


# --- masks and originals -----------------------------------------------------------------------


@pytest.fixture
def redaction(session):
    return audit.record(
        AuditEvent.Action.REDACTED, session=session.id, actor="the <officer>", reason="asked <b>for"
    )


def redact(message_id: int, redaction, payload, **columns) -> None:
    SessionMessage.objects.filter(message_id=message_id).update(
        redacted_at=timezone.now(), redaction=redaction.pk, redact_message=payload, **columns
    )


def test_masks_are_chips_with_when_by_whom_and_why(client, reader, talker, store, redaction):
    store.append(talker, said("user", "write to a@b.example"))
    masked = said("user", "write to [REDACTED:EMAIL] and **[REDACTED]**")
    redact(0, redaction, masked)

    for query in ({}, {"plain": 1}):
        page = shown(client, page_url("session-1"), **query)
        email, plain = re.findall(r'<span class="as-chip" title="([^"]*)">(.*?)</span>', page)
        assert "by the &lt;officer&gt;: asked &lt;b&gt;for" in email[0]
        assert "email</span>" in page
        assert plain[1].endswith("redacted") or "redacted" in page
        assert "a@b.example" not in page


def marks(page: str) -> list[str]:
    """What stands under redacted messages, without a pointer or a sense for small signs."""
    found = re.findall(r'<span class="as-redacted-mark">(.*?)</span>', page)
    return [re.sub("<[^>]*>", "", mark) for mark in found]


def test_who_redacted_and_why_is_there_to_read(client, reader, talker, store, redaction):
    store.append(talker, said("user", "write to a@b.example"))
    redact(0, redaction, said("user", "write to [REDACTED:EMAIL]"))

    [mark] = marks(shown(client, page_url("session-1")))

    assert re.fullmatch(r"Redacted on .* by the &lt;officer&gt;: asked &lt;b&gt;for", mark)
    client.force_login(staff("clerk", "view_session"))
    [mark] = marks(shown(client, page_url("session-1")))
    assert re.fullmatch(r"Redacted on .* by the &lt;officer&gt;\.", mark)


def test_of_several_redactions_the_last_is_said_to_be_that(client, reader, talker, session, store):
    store.append(talker, said("user", "alpha and beta and the rest"))
    store.append(talker, said("user", "gamma"))
    _first, second = SessionMessage.objects.order_by("id")
    redacting.redact(session.id, redacting.Find("alpha"), reason="the first case", actor="ada")
    assert marks(shown(client, page_url("session-1")))[0].startswith("Redacted on")

    # About another message, and so not about this one.
    other = redacting.WholeMessage(second.pk)
    redacting.redact(session.id, other, reason="another case", actor="eve")
    assert marks(shown(client, page_url("session-1")))[0].startswith("Redacted on")

    redacting.redact(session.id, redacting.Find("beta"), reason="the second case", actor="bob")
    page = shown(client, page_url("session-1"))
    assert re.match(r"Last redacted on .* by bob: the second case", marks(page)[0])
    notes = re.findall(r'<span class="as-chip" title="([^"]*)">', page)
    assert len(notes) == 2
    assert all(note.startswith("Last redacted on") for note in notes)
    assert "auditevent" not in page

    client.force_login(staff("officer", "view_session", "read_transcript", "view_auditevent"))
    page = shown(client, page_url("session-1"))
    [link, *_rest] = re.findall(r'as-redacted-mark">.*?<a href="([^"]*)"', page)
    events = shown(client, html.unescape(link))
    for words in ("the first case", "the second case", "ada", "bob"):
        assert words in events
    assert "transcript read</td>" not in events


def test_when_it_was_last_redacted_is_told_where_the_original_is_kept(
    client, reader, talker, session, store, settings
):
    settings.AGENT_SESSIONS = KEPT
    store.append(talker, said("user", "alpha and beta"))
    redacting.redact(session.id, redacting.Find("alpha"), reason="the first case", actor="ada")
    SessionMessage.objects.update(redacted_at=timezone.now() - timedelta(days=500))

    redacting.redact(session.id, redacting.Find("beta"), reason="the second case", actor="bob")

    [mark] = marks(shown(client, page_url("session-1")))
    assert str(timezone.localtime().year) in mark


def test_masks_in_arguments_and_results_are_chips_too(client, reader, talker, store, redaction):
    masked = "of <b> [REDACTED:IBAN]"
    store.append(talker, said("assistant", call("1", "pay", **{"[REDACTED]": masked})))
    store.append(talker, said("user", result("1", masked)))

    assert "as-chip" not in shown(client, page_url("session-1"))
    for number in (0, 1):
        payload = SessionMessage.objects.get(message_id=number).message
        redact(number, redaction, payload)

    page = shown(client, page_url("session-1"))

    assert page.count('<span class="as-chip"') == 3
    assert page.count("of &lt;b&gt; <span") == 2
    assert "[REDACTED" not in page


def test_a_mask_that_somebody_typed_is_no_chip(client, reader, talker, store):
    store.append(talker, said("user", "I am [REDACTED:EMAIL] and \ue0000\ue001"))

    page = shown(client, page_url("session-1"))

    assert "as-chip" not in page
    assert "[REDACTED:EMAIL]" in page


@pytest.mark.parametrize(
    "text",
    [
        "&#xE000;99&#xE001;",
        "&#xE000;0&#xE001;",
        "&#57344;0&#57345; and \ue0000\ue001",
        "`&#xE000;0&#xE001;` [x](http://x.example/&#xE000;0&#xE001;)",
        "&#xE000;%2e%2e0&#xE001; &#xE000;" + "9" * 40 + "&#xE001;",
    ],
)
@pytest.mark.parametrize("query", [{}, {"plain": 1}])
def test_nobody_can_write_what_becomes_a_chip(
    client, reader, talker, store, redaction, text, query
):
    masked = said("user", f"[REDACTED:EMAIL] {text}")
    store.append(talker, masked)
    redact(0, redaction, masked)

    page = shown(client, page_url("session-1"), **query)

    assert page.count('<span class="as-chip"') == 1


def test_a_mask_in_a_link_does_not_break_out_of_it(client, reader, talker, store, redaction):
    text = (
        '[a](http://x.example/[REDACTED:URL] "[REDACTED]") \ue0001\ue001 [b](<http://[REDACTED]>)'
    )
    store.append(talker, said("user", text))
    redact(0, redaction, said("user", text))

    page = shown(client, page_url("session-1"))

    assert not re.search(r"<a [^>]*as-chip", page)
    assert not re.search(r'="[^"]*<span', page)


def test_a_message_of_which_nothing_is_left_is_a_tombstone(
    client, reader, talker, store, redaction
):
    store.append(talker, said("user", "[REDACTED]"))
    redact(0, redaction, said("user", "[REDACTED]"))

    page = shown(client, page_url("session-1"))

    assert "as-tombstone" in page
    assert "by the &lt;officer&gt;: asked &lt;b&gt;for" in page


def test_an_original_is_shown_to_a_reason_and_recorded_before(
    client, talker, store, redaction, settings
):
    settings.AGENT_SESSIONS = KEPT
    user = staff("auditor", "view_session", "read_transcript", "view_original")
    client.force_login(user)
    store.append(talker, said("user", "the secret", image(PNG)))
    redact(0, redaction, said("user", "[REDACTED]"))

    page = shown(client, page_url("session-1"))
    assert endpoint("original") in page
    assert "the secret" not in page
    asked = client.get(endpoint("original"), {"reason": "because"})
    assert asked.status_code == 200
    assert "the secret" not in asked.content.decode()
    for reason in ("", "  x  "):
        refused = client.post(endpoint("original"), {"reason": reason}).content.decode()
        assert "the secret" not in refused
        assert "Say in a few words" in refused
    viewed = AuditEvent.objects.filter(action=AuditEvent.Action.ORIGINAL_VIEWED)
    assert not viewed.exists()

    answer = client.post(endpoint("original"), {"reason": "case 7 <b>"})

    assert "the secret" in answer.content.decode()
    assert "<img" not in answer.content.decode()
    assert "no-store" in answer["Cache-Control"]
    event = viewed.get()
    assert (event.actor, event.target) == ("auditor", SessionMessage.objects.get().pk)
    assert event.reason == "case 7 <b>"


def test_no_original_is_shown_that_is_not_kept_or_not_any_longer(
    client, talker, store, redaction, settings
):
    settings.AGENT_SESSIONS = KEPT
    client.force_login(staff("auditor", "view_session", "read_transcript", "view_original"))
    store.append(talker, said("user", "never redacted"))
    assert client.post(endpoint("original"), {"reason": "because"}).status_code == 404

    masked = said("user", "[REDACTED]")
    redact(0, redaction, masked, message=masked)
    assert client.post(endpoint("original"), {"reason": "because"}).status_code == 404
    assert endpoint("original") not in shown(client, page_url("session-1"))

    redact(0, redaction, masked, message=said("user", "the secret"))
    assert client.post(endpoint("original"), {"reason": "because"}).status_code == 200
    SessionMessage.objects.update(redacted_at=timezone.now() - timedelta(seconds=3601))
    assert client.post(endpoint("original"), {"reason": "because"}).status_code == 404
    assert endpoint("original") not in shown(client, page_url("session-1"))


def test_an_original_takes_its_permission(client, reader, talker, store, redaction, settings):
    settings.AGENT_SESSIONS = KEPT
    store.append(talker, said("user", "the secret"))
    redact(0, redaction, said("user", "[REDACTED]"))

    assert client.post(endpoint("original"), {"reason": "because"}).status_code == 404
    assert endpoint("original") not in shown(client, page_url("session-1"))


# --- words -------------------------------------------------------------------------------------

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[a](javascript:alert(1))",
    "[a](java&#115;cript:alert(1))",
    "<javascript:alert(1)>",
    "[a](data:text/html,<script>alert(1)</script>)",
    '[a](http://x.example "onmouseover=alert(1)")',
    '"><svg onload=alert(1)>',
    "</textarea></title></script><script>alert(1)</script>",
    "{{ 7|add:7 }}{% load x %}",
    "<a x-data x-on:click=alert(1) hx-get=/x>a</a>",
    "`</code><script>alert(1)</script>`",
    '```"><script>alert(1)</script>\nx\n```',
    "\u202e\x00\ud800",
]


def tags(page: str) -> list[str]:
    return re.findall(r"<[a-zA-Z][^>]*>", page[page.index("as-root") :])


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("query", [{}, {"plain": 1}])
def test_nothing_that_was_said_becomes_markup_that_runs(client, reader, store, text, query):
    sound = "".join(letter for letter in text if letter.isprintable())
    session = store.open("session-1", title=sound)
    state = AgentState({text: [text]}, {"b": text}, {"c": text})
    agent = store.open_agent(session, f"x{sound}", dialect=STRANDS, data=state)
    reasoning = {"reasoningContent": {"reasoningText": {"text": text}}}
    cited = {"citationsContent": {"content": [{"text": text}], "citations": [
        {"title": text, "location": {"web": {"url": f"javascript:{text}"}}}]}}  # fmt: skip
    document = {"document": {"format": text, "name": text, "source": {"bytes": b"x"}}}
    arguments = {"toolUse": {"toolUseId": text, "name": text, "input": {text: text}}}
    blocks = (text, reasoning, cited, document, arguments, {text: text}, result(text, text))
    store.append(agent, said("assistant", *blocks))
    store.append(agent, {"role": text, "content": text})
    store.create_multi_agent(session, "graph", {text: text}, kind="kind")

    page = shown(client, page_url("session-1"), **query)

    for tag in tags(page):
        assert not re.search(r"\s(on\w+|style|x-\w+|hx-\w+|srcdoc)\s*=", re.sub('"[^"]*"', "", tag))
        assert not re.match(r"<(script|img|svg onload|iframe|object|embed|base|meta|link)", tag)
        assert not re.search(r'(href|src|action)="\s*(javascript|data|vbscript):', tag, re.I)


def test_text_is_markdown_unless_plain_is_asked_for(client, reader, talker, store):
    store.append(talker, said("assistant", "**bold** [shop](https://shop.example/a)\n\n| a |\n|-|"))

    page = shown(client, page_url("session-1"))
    plain = shown(client, page_url("session-1"), plain=1)

    assert "<strong>bold</strong>" in page
    assert '<a href="https://shop.example/a" rel="noopener nofollow noreferrer">shop</a>' in page
    assert "<table>" in page[page.index("as-turns") :]
    assert "**bold** [shop](https://shop.example/a)" in plain


def test_without_the_packages_for_markdown_text_is_plain(
    client, reader, talker, store, monkeypatch
):
    store.append(talker, said("assistant", "**bold**"))
    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name.startswith(("nh3", "markdown_it")):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    wording.markdown.cache_clear()
    monkeypatch.setattr(builtins, "__import__", missing)
    try:
        page = shown(client, page_url("session-1"))
    finally:
        monkeypatch.undo()
        wording.markdown.cache_clear()

    assert "**bold**" in page


def test_a_very_deep_or_long_tree_is_cut(client, reader, talker, store):
    deep: object = "bottom"
    for _ in range(100):
        deep = [deep]
    store.append(talker, said("assistant", call("1", "deep", value=deep)))
    store.append(talker, said("assistant", call("2", "long", value=list(range(5000)))))

    page = shown(client, page_url("session-1"))

    assert "bottom" not in page
    assert "nested deeper" in page
    assert re.search(r"… \d+ more", page)
