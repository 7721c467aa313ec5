"""Titles: the first words, which are read and not stored."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from .chat_site import answered, chat_of, say

SECRET = "4111 1111 1111 1111"
API = "/api/agent-sessions/sessions/"


def redact(page, text=None):
    page.get_by_role("button", name="Redact your message").first.click()
    if text:
        page.get_by_label("The text").fill(text)
    else:
        page.get_by_label("The whole message").check()
    page.get_by_role("button", name="Preview").click()
    page.get_by_label("Reason").fill("it is mine")
    page.get_by_role("button", name="Redact permanently").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator(".message .chip", has_text="redacted")).to_be_visible()


def rename(page, title):
    page.get_by_role("button", name="Rename this chat").click()
    page.get_by_label("Title").fill(title)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=title, exact=True)).to_be_visible()


def test_a_new_chat_is_called_by_its_first_words(enter):
    page = enter()
    words = (
        "Dear concierge, \n please find out what the weather will be like in Lisbon in May and June"
    )
    page.get_by_label("Message", exact=True).fill(words)
    page.keyboard.press("Enter")
    answered(page)
    title = "Dear concierge, please find out what the weather will be like in Lisbon in May…"
    expect(page.get_by_role("heading", name=title, exact=True)).to_be_visible()
    expect(page.locator("#list a[aria-current]")).to_contain_text(title)
    session = page.request.get(f"{API}{chat_of(page)}/").json()
    assert (session["title"], session["display_title"]) == ("", title)
    assert session["metadata"] == {"agent": "strands"}


@pytest.mark.parametrize("scope", ["whole message", "text"])
def test_a_secret_of_the_first_message_is_nowhere_after_it_was_redacted(enter, chat_site, scope):
    # Of nobody else's chat.
    secret = {"whole message": "5500 0000 0000 0004", "text": "3400 0000 0000 009"}[scope]
    page = enter()
    page.get_by_label("OpenAI agent").check()
    say(page, f"My card number is {secret}.")
    answered(page)
    expect(page.locator("#list a[aria-current]")).to_contain_text(secret)
    chat = chat_of(page)
    other = enter()
    other.goto(page.url)
    expect(other.get_by_role("heading", level=1)).to_contain_text(secret)
    assert secret in everywhere(page, chat, secret)
    assert secret in on_disk(chat_site)

    redact(page, secret if scope == "text" else None)
    title = {"whole message": "Untitled", "text": "My card number is [REDACTED]."}[scope]
    for each in (page, other):
        expect(each.get_by_role("heading", name=title, exact=True)).to_be_visible()
        expect(each.locator("#list a[aria-current]")).to_contain_text(title)
        expect(each.locator("body")).not_to_contain_text(secret)
        assert secret not in each.title()
        assert secret not in each.content()
    assert secret not in everywhere(page, chat, secret)
    assert secret not in on_disk(chat_site)
    assert page.request.get(f"{API}{chat}/").json()["metadata"] == {"agent": "openai"}


def everywhere(page, chat, secret):
    """All that the API tells of the chats of this user."""
    addresses = (
        API,
        f"{API}?q={secret}",
        f"{API}{chat}/",
        f"{API}{chat}/messages/?raw=true",
        f"{API}{chat}/agents/",
    )
    answers = [page.request.get(address) for address in addresses]
    assert {answer.status for answer in answers} == {200}
    return json.dumps([answer.json() for answer in answers])


def on_disk(site):
    """All that the database's files hold, free pages and write-ahead log too."""
    files = site.database.parent.glob(f"{site.database.name}*")
    return b"".join(file.read_bytes() for file in files).decode("latin-1")


def test_a_title_that_the_user_gave_stays_when_a_message_is_redacted(enter):
    page = enter()
    say(page, f"My card number is {SECRET}.")
    answered(page)
    rename(page, "The hotel")
    assert page.request.get(f"{API}{chat_of(page)}/").json()["metadata"] == {"agent": "strands"}
    redact(page)
    page.reload()
    expect(page.get_by_role("heading", name="The hotel", exact=True)).to_be_visible()
    expect(page.locator("body")).not_to_contain_text(SECRET)


def test_a_title_that_was_given_in_another_browser_meanwhile_stays_too(enter):
    page = enter()
    say(page, f"My card number is {SECRET}.")
    answered(page)
    # Nothing tells the first page what the metadata are now.
    other = enter()
    other.goto(page.url)
    rename(other, "Ours")
    redact(page)
    expect(page.get_by_role("heading", name="Ours", exact=True)).to_be_visible()
