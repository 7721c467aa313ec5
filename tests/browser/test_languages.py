"""The pages in each language of the catalogues: no English word of ours, and they fit.

With ``LANGUAGE_PICTURES``, a picture of each is stored in that folder.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

import pytest
from django.test import override_settings
from django.urls import reverse
from django.utils.translation import gettext, override

from django_agent_sessions import audit
from django_agent_sessions.governance import reviews
from django_agent_sessions.models import AuditEvent, Participant, ShareLink
from tests.admin.people import grant, staff
from tests.test_catalogues import DOMAINS, LANGUAGES, catalogue, forms_of, messages

from . import example, time_pages
from .chat_site import answered

FOLDER = os.environ.get("LANGUAGE_PICTURES")
WIDE, NARROW = {"width": 1536, "height": 900}, {"width": 375, "height": 812}
LOCALES = {"de": "de-DE", "es": "es-ES", "fr": "fr-FR", "ja": "ja-JP"}

TEXTS = """() => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const skipped = "script, style, template, noscript, pre, .as-json, .as-redact-where";
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.parentElement.closest(skipped)) found.push(node.nodeValue);
  }
  for (const name of ["aria-label", "title", "placeholder"]) {
    const marked = document.querySelectorAll(`body [${name}]`);
    for (const each of marked) found.push(each.getAttribute(name));
  }
  return found.map((text) => text.replace(/\\s+/g, " ").trim()).filter(Boolean);
}"""
DATA = {"user", "OpenAI agent"}
"""Words of the example's data that are words of ours, too."""


@cache
def english(language: str) -> re.Pattern[str]:
    """Matches what is written as in the code, where the language has other words."""
    code: set[str] = set()
    words: set[str] = set()
    for folder, domain in DOMAINS:
        known = messages(catalogue(folder, domain, language)).values()
        code.update(form for each in known for form in forms_of(each.id))
        words.update(form for each in known for form in forms_of(each.string))
        if folder == "django_agent_sessions":
            # Django, or another app, may have other words for the same.
            with override(language):
                words.update(gettext(each.id) for each in known if isinstance(each.id, str))
    patterns = []
    for text in code - words:
        literal = re.sub(r"%(\(\w+\))?[sd]", "", text)
        if literal == text or re.search(r"[A-Za-z]{6}", literal):
            parts = re.split(r"%(?:\(\w+\))?[sd]", text.strip())
            patterns.append(".+".join(map(re.escape, parts)))
    return re.compile("|".join(patterns))


def faults(page, name: str, language: str) -> list[str]:
    """What is in English, or does not fit, on a page that is open."""
    texts = set(page.evaluate(TEXTS)) - DATA
    found = [f"{name}: {text}" for text in texts if english(language).fullmatch(text)]
    wide, width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    if wide > width:
        found.append(f"{name}: {wide} pixels wide of {width}")
    # The list scrolls within the page; on a desktop, all its columns have to be there.
    hidden = "[...document.querySelectorAll('.results')].some((e) => e.scrollWidth > e.clientWidth)"
    if width == WIDE["width"] and page.evaluate(hidden):
        found.append(f"{name}: columns are cut off")
    return found


def look(page, name: str, language: str) -> list[str]:
    """Looks at a page at both widths."""
    found = []
    for width, size in (("wide", WIDE), ("narrow", NARROW)):
        page.set_viewport_size(size)
        found += faults(page, f"{name} ({width})", language)
        if FOLDER:
            picture = Path(FOLDER) / f"{language}-{name}-{width}.png"
            page.screenshot(path=str(picture), full_page=True)
    page.set_viewport_size(WIDE)
    return found


@pytest.fixture
def shop(clerk, settings):
    """A conversation that was read, rated, reviewed, shared, rewound and forked, and its pages."""
    settings.AGENT_SESSIONS = {**example.WITH_PRICES, "SHARE_LINKS": True}
    grant(clerk, "share")
    example.usage_of_90_days()
    example.others(8)
    session = example.conversation()
    pages = time_pages.pages_about_time(session)
    audit.record(AuditEvent.Action.EXPORTED, session=session.pk, actor=clerk, reason="ticket 7")
    reviews.add_note(session.pk, "Was it promised?", author=clerk)
    Participant.objects.create(session=session, user=staff("grace"), role="writer")
    ShareLink.objects.create(
        session=session, token_hash="0", expires_at=session.created_at, created_by="clerk"
    )
    admin = "admin:agent_sessions_"
    event = AuditEvent.objects.latest("id").pk
    return {
        "list": reverse(f"{admin}session_changelist"),
        "search": reverse(f"{admin}session_changelist", query={"q": "refund"}),
        "transcript": time_pages.address(session, "change", **{"from": "start"}),
        "review": time_pages.address(session, "review"),
        "sharing": time_pages.address(session, "sharing"),
        "export": time_pages.address(session, "export"),
        "person": reverse(f"{admin}session_person", args=[session.owner_id]),
        "person-erase": reverse(f"{admin}session_person_erase", args=[session.owner_id]),
        "usage": reverse(f"{admin}usagerollup_changelist"),
        "audit": reverse(f"{admin}auditevent_changelist"),
        "event": reverse(f"{admin}auditevent_change", args=[event]),
        "operation-start": reverse(f"{admin}session_all"),
        **pages,
    }


# A few seconds for each language: more than twenty pages, at two widths.
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_admin_in_each_language(open_page, shop, language):
    page, found = open_page(locale=LOCALES[language]), []
    with override_settings(LANGUAGE_CODE=language):
        for name, path in shop.items():
            answer = page.goto(path)
            assert answer.status == 200, name
            found += look(page, name, language)
        # The last page is the form of a redaction.
        page.locator("[name=text]").fill("refund")
        page.locator(".as-redact-actions button").first.click()
        page.wait_for_selector(".as-redact-hit")
        found += look(page, "preview", language)
    assert not found, "\n".join(found)


# A few seconds for each language: an answer comes word by word.
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_chat_in_each_language(enter, language):
    page = enter("ada", locale=LOCALES[language])
    found = look(page, "chat-new", language)
    page.locator("#ideas button").first.click()
    page.locator(".rating button").first.wait_for()
    answered(page)
    page.locator(".rating button").first.click()
    page.locator(".comment textarea").wait_for()
    found += look(page, "chat", language)
    page.locator("#messages .redact").first.click()
    found += look(page, "chat-redact", language)
    assert not found, "\n".join(found)
