"""The page of a conversation leads to the page that redacts, if one may."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.urls import reverse

from tests.admin.people import staff

from .pages import url_of

pytestmark = pytest.mark.django_db


def test_the_conversation_leads_to_every_message_and_part(browser, talk):
    page = browser.get(reverse("admin:agent_sessions_session_change", args=[talk.id]))
    links = {
        unescape(link) for link in re.findall(r'href="([^"]*/redact/[^"]*)"', page.content.decode())
    }

    assert f"{url_of(talk)}" in links
    assert len(links) > 4
    for link in links:
        assert browser.get(link).status_code == 200


def test_links_that_redact_more_or_less_say_so_in_different_words(browser, talk):
    page = browser.get(reverse("admin:agent_sessions_session_change", args=[talk.id]))
    links = re.findall(
        r'<a class="as-redact" href="([^"]*)"([^>]*)>(.*?)</a>', page.content.decode()
    )
    said: dict[str, set[tuple[str, str]]] = {}
    for url, rest, words in links:
        [title] = re.findall(r'title="([^"]+)"', rest)
        target = "message" if unescape(url).endswith("path=%5B%5D") else "part"
        said.setdefault(target, set()).add((re.sub(r"<.*", "", words), title))

    assert said == {
        "message": {("Redact message…", "Redact this message or some of its text")},
        "part": {("Redact part…", "Redact this part of the message or some of its text")},
    }
    # To somebody who hears them one after the other, each tells which message it is.
    whole = [words for url, _, words in links if unescape(url).endswith("path=%5B%5D")]
    assert len(whole) == len(set(whole)) > 1


def test_the_conversation_has_the_form_for_selections_only_for_who_may_redact(
    browser, client, talk
):
    url = reverse("admin:agent_sessions_session_change", args=[talk.id])
    assert "data-as-redact-selection" in browser.get(url).content.decode()

    client.force_login(staff("reader", "view_session", "read_transcript"))
    page = client.get(url).content.decode()
    assert "data-as-redact-selection" not in page
    assert "/redact/" not in page
