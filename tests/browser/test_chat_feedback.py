"""Thumbs below the answers of a chat: by mouse and keyboard, kept, and taken back."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest
from playwright.sync_api import expect

from .chat_site import answered, chat_of, say
from .test_chat import LOOKS, picture, serious_faults

THANKS = "Thank you for your feedback. You can add a comment."
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
SECRET = "4111 1111 1111 1111"


def given(site: Any, chat: str) -> list[tuple[int, str, str]]:
    """What is stored of a chat."""
    sql = (
        "SELECT f.value, f.source, f.comment FROM agent_sessions_messagefeedback f "
        "WHERE f.session_id = ? ORDER BY f.id"
    )
    with closing(sqlite3.connect(site.database)) as database:
        rows = database.execute(sql, [chat.replace("-", "")]).fetchall()
    return [(value, source, json.loads(comment)) for value, source, comment in rows]


def test_an_answer_is_rated_changed_and_taken_back(enter, chat_site):
    page = enter()
    say(page, "What is the weather in Lisbon?")
    answered(page)
    chat = chat_of(page)
    # Only what the agent says, not its calls of tools, nor the user's own words.
    expect(page.locator(".rating")).to_have_count(1)
    expect(page.locator(".message.user .rating")).to_have_count(0)
    good = page.get_by_role("button", name="Good answer")
    bad = page.get_by_role("button", name="Bad answer")
    expect(good).to_have_attribute("aria-pressed", "false")

    good.click()
    expect(good).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#said")).to_have_text(THANKS)
    assert given(chat_site, chat) == [(1, "user", "")]

    # By the keyboard.
    page.keyboard.press("Tab")
    expect(bad).to_be_focused()
    page.keyboard.press("Enter")
    expect(bad).to_have_attribute("aria-pressed", "true")
    expect(good).to_have_attribute("aria-pressed", "false")
    expect(page.locator("#said")).to_have_text(THANKS)
    page.reload()
    expect(bad).to_have_attribute("aria-pressed", "true")
    assert given(chat_site, chat) == [(-1, "user", "")]

    bad.focus()
    page.keyboard.press("Space")
    expect(bad).to_have_attribute("aria-pressed", "false")
    expect(page.locator("#said")).to_have_text("Your feedback was withdrawn.")
    assert given(chat_site, chat) == []
    page.reload()
    expect(bad).to_have_attribute("aria-pressed", "false")


def test_ratings_of_one_chat_are_not_shown_in_another(enter):
    page = enter()
    for text in ("What is the weather in Oslo?", "What is the weather in Rome?"):
        page.goto("/")
        say(page, text)
        answered(page)
    page.get_by_role("button", name="Good answer").click()
    expect(page.locator("#said")).to_have_text(THANKS)
    page.locator("#list a", has_text="Oslo").click()
    expect(page.locator("#messages")).to_contain_text("Oslo")
    button = page.get_by_role("button", name="Good answer")
    expect(button).to_have_attribute("aria-pressed", "false")
    page.locator("#list a", has_text="Rome").click()
    expect(page.locator("#messages")).to_contain_text("Rome")
    expect(button).to_have_attribute("aria-pressed", "true")


def test_a_rating_that_the_server_refuses_is_not_shown_as_given(enter):
    page = enter(refused=(409, 404))
    say(page, "What is the weather in Porto?")
    answered(page)
    refusal = {"type": "about:blank", "title": "Conflict", "status": 409, "detail": "Held."}
    page.route(
        "**/feedback/",
        lambda route: route.fulfill(
            status=409, json=refusal, headers={"content-type": "application/problem+json"}
        ),
    )
    bad = page.get_by_role("button", name="Bad answer")
    bad.click()
    expect(page.locator("#notice-text")).to_have_text("Held.")
    expect(bad).to_have_attribute("aria-pressed", "false")


def test_a_comment_is_written_changed_and_left_out_by_the_keyboard(enter, chat_site):
    page = enter()
    say(page, "What is the weather in Faro?")
    answered(page)
    chat = chat_of(page)
    page.get_by_role("button", name="Bad answer").focus()
    page.keyboard.press("Enter")
    field = page.get_by_label("Comment (optional)")
    expect(field).to_be_visible()
    page.keyboard.press("Tab")
    expect(field).to_be_focused()
    page.keyboard.type("<b>Wrong city.</b>")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("It is colder.")
    page.keyboard.press("Enter")
    change = page.get_by_role("button", name="Change your comment")
    expect(change).to_be_focused()
    expect(page.locator("#said")).to_have_text("Your comment was saved.")
    comment = "<b>Wrong city.</b>\nIt is colder."
    assert given(chat_site, chat) == [(-1, "user", comment)]

    page.reload()
    shown = page.locator(".comment .words")
    expect(shown).to_have_text(comment)
    # The other thumb keeps the comment; Esc leaves it as it was.
    page.get_by_role("button", name="Good answer").click()
    expect(field).to_have_count(0)
    change.focus()
    page.keyboard.press("Enter")
    expect(field).to_have_value(comment)
    page.keyboard.type(" No.")
    page.keyboard.press("Escape")
    expect(change).to_be_focused()
    assert given(chat_site, chat) == [(1, "user", comment)]

    page.get_by_role("button", name="Good answer").click()
    expect(shown).to_have_count(0)
    expect(page.locator("#said")).to_have_text("Your feedback was withdrawn.")
    assert given(chat_site, chat) == []


def test_a_rating_without_a_comment_offers_one_later(enter, chat_site):
    page = enter(**PHONE)
    say(page, "What is the weather in Rome?")
    answered(page)
    page.get_by_role("button", name="Good answer").tap()
    page.get_by_role("button", name="Cancel").tap()
    page.reload()
    page.get_by_role("button", name="Add a comment").tap()
    page.get_by_label("Comment (optional)").fill("x" * 5000)
    page.get_by_role("button", name="Save comment").tap()
    expect(page.locator(".comment .words")).to_have_text("x" * 4000)
    wide, width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= width
    assert given(chat_site, chat_of(page)) == [(1, "user", "x" * 4000)]


@pytest.mark.parametrize("look", LOOKS)
def test_a_comment_can_be_read_by_everybody_and_fits_its_width(enter, look):
    page = enter(**LOOKS[look])
    say(page, "What is the weather in Oslo?")
    answered(page)
    page.get_by_role("button", name="Bad answer").click()
    expect(page.get_by_role("button", name="Save comment")).to_be_in_viewport()
    page.get_by_label("Comment (optional)").fill("It was colder than that.")
    picture(page, f"comment-{look}")
    assert serious_faults(page) == []
    wide, width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= width


def test_a_redacted_comment_is_redacted_on_every_open_page(enter, chat_site):
    one, other = enter(), enter()
    say(one, f"My card number is {SECRET}.")
    answered(one)
    other.goto(one.url)
    answered(other)
    one.get_by_role("button", name="Bad answer").click()
    one.get_by_label("Comment (optional)").fill(f"You may not keep {SECRET}.")
    one.get_by_role("button", name="Save comment").click()
    for page in (one, other):
        expect(page.locator(".comment .words")).to_contain_text(SECRET)

    one.get_by_role("button", name="Redact your message").click()
    one.get_by_label("A text, everywhere").check()
    one.get_by_label("The text").fill(SECRET)
    one.get_by_role("button", name="Preview").click()
    comment = one.get_by_role("dialog").locator("li", has_text="Comment on an answer")
    expect(comment.locator("ins")).to_have_text("You may not keep [REDACTED].")
    one.get_by_label("Reason").fill("it is mine")
    one.get_by_role("button", name="Redact permanently").click()
    for page in (one, other):
        expect(page.locator(".comment .words")).to_have_text("You may not keep redacted.")
        expect(page.locator(".comment .mask")).to_have_count(1)
    assert given(chat_site, chat_of(one)) == [(-1, "user", "You may not keep [REDACTED].")]


def test_a_comment_that_the_server_refuses_stays_in_its_field(enter):
    page = enter(refused=(409,))
    say(page, "What is the weather in Paris?")
    answered(page)
    page.get_by_role("button", name="Good answer").click()
    field = page.get_by_label("Comment (optional)")
    field.fill("Sunny, indeed.")
    refusal = {"type": "about:blank", "title": "Conflict", "status": 409, "detail": "Held."}
    page.route(
        "**/feedback/",
        lambda route: route.fulfill(
            status=409, json=refusal, headers={"content-type": "application/problem+json"}
        ),
    )
    page.get_by_role("button", name="Save comment").click()
    expect(page.locator("#notice-text")).to_have_text("Held.")
    expect(field).to_have_value("Sunny, indeed.")
    expect(page.get_by_role("button", name="Good answer")).to_have_attribute("aria-pressed", "true")
