"""Reviewing a conversation in a browser: by keyboard, on a phone, without scripts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from django.urls import reverse

from django_agent_sessions.governance import reviews
from django_agent_sessions.models import Label, Note, Review, Session
from tests.admin.people import staff

from . import example
from .conftest import EVERYTHING
from .test_pages import LOOKS, unfold, violations

pytestmark = pytest.mark.django_db(transaction=True)

PICTURES = Path(os.environ.get("SCREENSHOTS", ".cache/screenshots"))
PHONE = {"width": 390, "height": 844}


def page_of(session: Session) -> str:
    return reverse("admin:agent_sessions_session_change", args=[session.pk])


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_a_conversation_is_reviewed_on_a_phone(open_page, clerk, scripts):
    session = example.conversation()
    staff("grace", *EVERYTHING)
    page = open_page(page_of(session), viewport=PHONE, java_script_enabled=scripts)

    page.get_by_role("link", name="Change review…").click()
    page.get_by_label("State").select_option("in review")
    page.get_by_label("Assignee").fill("grace")
    page.get_by_label("New label").fill("refund")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_label("Note", exact=True).fill("Was it promised?\n<b>Ask</b> Tuesday.")
    page.get_by_role("button", name="Add note").click()

    card = page.locator("#as-review")
    text = card.inner_text()
    for words in ("in review", "assigned to grace", "refund", "<b>Ask</b> Tuesday.", "clerk"):
        assert words in text
    page.get_by_role("link", name="Edit…").click()
    page.get_by_role("button", name="Delete note").click()
    assert "Was it promised?" not in card.inner_text()
    assert (Review.objects.get().assignee, Label.objects.get().name) == ("grace", "refund")
    assert not Note.objects.exists()


def test_labels_are_chosen_by_keyboard(open_page, clerk):
    session = example.conversation()
    reviews.set_labels(session.pk, ["refund", "urgent"], actor=clerk)
    page = open_page(reverse("admin:agent_sessions_session_review", args=[session.pk]))
    page.get_by_label("refund").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.type("promise")
    page.keyboard.press("Enter")
    page.wait_for_selector("#as-review")
    assert set(Label.objects.values_list("name", flat=True)) == {"promise", "urgent"}


@pytest.mark.parametrize("look", LOOKS)
def test_its_pages_can_be_read_by_everybody_and_fit_their_width(open_page, clerk, look):
    session = example.conversation()
    message = session.messages.earliest("id")
    for text in ("A note.", "One_word_" * 60, "שלום, three\nlines\nof text"):
        reviews.add_note(session.pk, text, author=clerk, message=message.pk)
    reviews.set_labels(session.pk, ["refund", "w" * 50, "urgent"], actor=clerk)
    reviews.set_labels(session.pk, ["promise"], actor=clerk, message=message.pk)
    reviews.assign(session.pk, clerk, actor=clerk)
    page = open_page(**LOOKS[look])
    note = Note.objects.earliest("id").pk
    form = reverse("admin:agent_sessions_session_review", args=[session.pk])
    listing = reverse("admin:agent_sessions_session_changelist")
    PICTURES.mkdir(parents=True, exist_ok=True)
    found = []
    for name, path in {
        "review-card": page_of(session),
        "review-page": form,
        "review-message": f"{form}?message={message.pk}",
        "review-note": f"{form}?note={note}",
        "review-list": f"{listing}?columns=active,review_state&review=mine",
    }.items():
        answer = page.goto(path)
        assert answer.status == 200, name
        if name == "review-card":
            page.locator("#as-review").scroll_into_view_if_needed()
        if "SCREENSHOTS" not in os.environ:
            (PICTURES / f"{name}-{look}.png").write_bytes(page.screenshot(caret="initial"))
        unfold(page)
        faults = violations(page, colours=look != "narrow", others=look != "dark")
        found += [f"{name}: {each}" for each in faults]
        wide, width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        if wide > width:
            found.append(f"{name}: {wide} pixels wide on a screen of {width}")
    assert not found, "\n".join(found)
