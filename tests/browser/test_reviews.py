"""Reviewing a conversation in a browser: by keyboard, on a phone, without scripts."""

from __future__ import annotations

import pytest
from django.urls import reverse

from django_agent_sessions.governance import reviews
from django_agent_sessions.models import Label, Note, Review, Session
from tests.admin.people import staff

from . import example
from .conftest import EVERYTHING

pytestmark = pytest.mark.django_db(transaction=True)

PHONE = {"width": 390, "height": 844}


def page_of(session: Session) -> str:
    return reverse("admin:agent_sessions_session_change", args=[session.pk])


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_a_conversation_is_reviewed_on_a_phone(open_page, clerk, scripts):
    session = example.conversation()
    staff("grace", *EVERYTHING)
    page = open_page(page_of(session), viewport=PHONE, java_script_enabled=scripts)

    # A click while the page is still loading may be lost on a busy machine.
    page.wait_for_load_state()
    page.get_by_role("link", name="Change review…").click()
    page.get_by_label("State").select_option("In review")
    page.get_by_label("Assignee").fill("grace")
    page.get_by_label("New label").fill("refund")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_label("Note", exact=True).fill("Was it promised?\n<b>Ask</b> Tuesday.")
    page.get_by_role("button", name="Add note").click()

    card = page.locator("#as-review")
    text = card.inner_text()
    for words in ("In review", "assigned to grace", "refund", "<b>Ask</b> Tuesday.", "clerk"):
        assert words in text
    page.wait_for_load_state()
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
