"""Masks of redactions are chips that say when, by whom and why; what was typed is none."""

from __future__ import annotations

import html
import re

import pytest

from django_agent_sessions.governance import redaction as redacting
from django_agent_sessions.models import SessionMessage
from tests.admin.people import staff
from tests.admin.transcripts import call, page_url, result, said, shown

from .parts import redact

pytestmark = pytest.mark.django_db


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
