"""Thumbs below the answers of a chat: by mouse and keyboard, kept, and taken back."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

from playwright.sync_api import expect

from .chat_site import answered, chat_of, say


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
    expect(page.locator("#said")).to_have_text("Thank you for your feedback.")
    assert given(chat_site, chat) == [(1, "user", "")]

    # By the keyboard.
    page.keyboard.press("Tab")
    expect(bad).to_be_focused()
    page.keyboard.press("Enter")
    expect(bad).to_have_attribute("aria-pressed", "true")
    expect(good).to_have_attribute("aria-pressed", "false")
    expect(page.locator("#said")).to_have_text("Thank you for your feedback.")
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
    expect(page.locator("#said")).to_have_text("Thank you for your feedback.")
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
