"""Sharing a conversation in a browser, and reading it by its link without scripts."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse

from django_agent_sessions.governance import sharing
from django_agent_sessions.models import Participant, ShareLink
from tests.admin.people import grant, staff

from . import example
from .test_pages import LOOKS, violations

pytestmark = pytest.mark.django_db(transaction=True)

PHONE = {"width": 390, "height": 844}


@pytest.fixture
def shared(clerk, settings):
    settings.AGENT_SESSIONS = {"SHARE_LINKS": True}
    grant(clerk, "share")
    staff("grace")
    return example.conversation()


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_a_conversation_is_shared_and_read_by_its_link(open_page, shared, scripts):
    key = shared.pk
    page = open_page(
        reverse("admin:agent_sessions_session_change", args=[key]),
        viewport=PHONE,
        java_script_enabled=scripts,
    )
    page.get_by_text("Actions", exact=True).click()
    page.get_by_role("link", name="Share…").click()
    page.get_by_label("User name").fill("nobody")
    page.get_by_role("button", name="Add participant").click()
    assert "No other user has this name." in page.locator("#as-add").inner_text()
    page.get_by_label("User name").fill("grace")
    page.get_by_label("writer").check()
    page.get_by_role("button", name="Add participant").click()
    assert "grace" in page.locator("#as-people + p + ul").inner_text()
    assert Participant.objects.get().role == "writer"
    page.get_by_role("button", name="Create link").click()
    url = page.locator(".as-notice .as-id").inner_text()

    reader = page.context.browser.new_context(java_script_enabled=scripts)
    try:
        opened = reader.new_page()
        assert opened.goto(url).status == 200
        assert "Read-only." in opened.locator("header").inner_text()
        assert opened.locator("article").count() > 3
        assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    finally:
        reader.close()

    page.get_by_role("button", name="Revoke").click()
    page.get_by_role("button", name="Remove").click()
    assert not Participant.objects.exists()
    assert not ShareLink.objects.get().is_valid


@pytest.mark.parametrize("look", LOOKS)
def test_the_page_of_a_link_can_be_read_by_everybody_and_fits_its_width(
    open_page, clerk, shared, look
):
    _link, token = sharing.create_link(shared.pk, timedelta(days=1), actor=clerk)
    page = open_page(reverse("agent_sessions_api:shared", args=[token]), **LOOKS[look])
    assert violations(page, colours=look != "narrow", others=look != "dark") == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
