"""The list of chats: its pages, its search, its archive, and what is not deleted."""

from __future__ import annotations

from playwright.sync_api import expect

from .chat_seed import MANY
from .chat_site import answered, say


def test_more_chats_are_loaded_each_once_and_in_their_order(enter):
    page = enter("grace")
    rows = page.locator("#list a")
    expect(rows).to_have_count(30)
    expect(rows.first).to_contain_text(f"Chat {MANY - 1}")
    page.get_by_role("button", name="Load more").click()
    expect(rows).to_have_count(MANY)
    expect(page.get_by_role("button", name="Load more")).to_be_hidden()
    expect(rows.last).to_contain_text("Chat 0")
    names = page.locator("#list .name").all_inner_texts()
    assert len(set(names)) == MANY


def test_the_search_finds_a_chat_of_another_page_by_what_was_said(enter):
    page = enter("grace")
    search = page.get_by_role("searchbox", name="Search chats")
    search.fill("zebras")
    rows = page.locator("#list a")
    expect(rows).to_have_count(1)
    rows.click()
    expect(page.get_by_role("heading", name="About zebras")).to_be_visible()
    expect(page.locator("#messages")).to_contain_text("Tell me: About zebras")
    expect(rows).to_have_attribute("aria-current", "page")
    search.fill("giraffes")
    expect(page.get_by_text("No chat found.")).to_be_visible()
    search.fill("")
    expect(rows).to_have_count(30)


def test_a_chat_goes_into_the_archive_and_comes_back(enter):
    page = enter()
    say(page, "My name is Ada, put me away.")
    answered(page)
    row = page.locator("#list a", has_text="put me away")
    expect(row).to_be_visible()
    page.get_by_role("button", name="Archive this chat").click()
    expect(page.locator("#facts")).to_contain_text("archived")
    expect(row).to_have_count(0)
    page.get_by_role("button", name="Archived", exact=True).click()
    expect(row).to_be_visible()
    page.reload()
    page.get_by_role("button", name="Restore this chat from the archive").click()
    expect(page.locator("#facts")).not_to_contain_text("archived")
    expect(row).to_be_visible()
    page.get_by_role("button", name="Archived", exact=True).click()
    expect(page.get_by_text("No archived chats.")).to_be_visible()


def test_a_chat_that_is_held_is_not_deleted_and_the_page_says_why(enter):
    page = enter("reader", refused=(409,))
    page.locator("#list a", has_text="A held chat").click()
    expect(page.locator("#facts")).to_contain_text("held")
    page.get_by_role("button", name="Delete this chat").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog.get_by_role("alert")).to_contain_text("hold")
    dialog.get_by_role("button", name="Cancel").click()
    expect(page.locator("#messages")).to_contain_text("Tell me: A held chat")
    page.reload()
    expect(page.get_by_role("heading", name="A held chat")).to_be_visible()
