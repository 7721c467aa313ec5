"""The address in the browser's bar, which people copy."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from .test_reading import key, talk_of, url

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_address_that_was_copied_after_moving_by_keys_opens_there(open_page):
    session = talk_of(200)
    page = open_page(f"{url(session)}?plain=1")
    entries = page.locator("[data-as-entry]")
    page.locator("[data-as-earlier]").click()
    expect(entries).to_have_count(100)

    entries.first.focus()
    page.keyboard.press("j")

    target = key(session, 101)
    assert page.url.endswith(f"?plain=1&at={target}#m-{target}")
    copied = open_page(page.url).locator(f"#m-{target}")
    expect(copied).to_be_focused()
    expect(copied).to_be_in_viewport()


def test_after_a_search_moving_by_keys_leaves_the_address_of_the_search(open_page):
    session = talk_of(20)
    page = open_page(url(session))
    page.locator("[data-as-find]").fill("word")
    page.keyboard.press("Enter")
    page.get_by_text("20 messages found").wait_for()
    # The page's script runs behind its text.
    page.wait_for_load_state()
    entries = page.locator("[data-as-entry]")

    entries.first.focus()
    page.keyboard.press("j")

    target = key(session, 1)
    expect(page).to_have_url(re.compile(re.escape(f"/change/?at={target}#m-{target}") + "$"))
    page.reload()
    expect(page.locator(f"#m-{target}")).to_be_focused()


def test_without_a_script_everything_is_reached_after_a_search(open_page):
    session = talk_of(60)
    page = open_page(url(session), java_script_enabled=False)
    page.locator("[data-as-find]").fill('"word 3."')
    page.get_by_role("button", name="Find", exact=True).click()
    page.get_by_text("1 message found").wait_for()

    page.get_by_role("link", name="Start", exact=True).click()

    expect(page.get_by_text("word 3.", exact=True)).to_be_visible()
