"""The chat of several browsers, and of one that loses its connection or its server."""

from __future__ import annotations

from playwright.sync_api import expect

from .chat_site import answered, say

END = "kettle on for two"
"""The last words of the story."""


def test_two_browsers_of_one_user_see_each_others_messages_once(enter):
    one = enter()
    say(one, "My name is Ada.")
    answered(one)
    other = enter()
    other.goto(one.url)
    expect(other.locator("#messages").get_by_text("Nice to meet you, Ada.")).to_be_visible()
    say(one, "What is my name?")
    expect(other.locator("#messages").get_by_text("What is my name?")).to_be_visible(timeout=2000)
    expect(other.locator("#messages").get_by_text("your name is Ada.")).to_be_visible()
    answered(other)
    for page in (one, other):
        expect(page.locator("#messages").get_by_text("your name is Ada.")).to_have_count(1)
        expect(page.locator("#messages").get_by_text("What is my name?")).to_have_count(1)


def test_what_was_written_while_a_browser_was_offline_is_there_once_when_it_is_back(enter):
    one = enter()
    say(one, "My name is Ada.")
    answered(one)
    other = enter()
    other.goto(one.url)
    expect(other.locator("#messages").get_by_text("Nice to meet you, Ada.")).to_be_visible()
    other.context.set_offline(True)
    expect(other.get_by_text("You are offline.")).to_be_visible()
    say(one, "What is my name?")
    answered(one)
    other.context.set_offline(False)
    expect(other.locator("#messages").get_by_text("your name is Ada.")).to_be_visible()
    expect(other.get_by_text("You are offline.")).to_be_hidden()
    answered(other)
    expect(other.locator(".message .words")).to_have_text(
        one.locator(".message .words").all_inner_texts()
    )


def test_a_reload_in_the_middle_of_an_answer_joins_it(enter):
    page = enter()
    say(page, "Tell me a story")
    expect(page.locator(".streaming .prose").first).to_contain_text("parcel")
    page.reload()
    joined = page.locator(".streaming .prose").first
    expect(joined).to_contain_text("A parcel came to the lighthouse")
    expect(page.locator("#stop")).to_be_visible()
    answered(page)
    expect(page.locator("#messages").get_by_text(END)).to_have_count(1)
    expect(page.locator(".message.user")).to_have_count(1)


def test_a_page_reconnects_when_its_server_died_and_came_back_and_has_everything_once(
    enter, chat_site
):
    one, other = enter(), enter()
    say(one, "My name is Ada.")
    answered(one)
    other.goto(one.url)
    answered(other)
    chat_site.kill()
    try:
        for page in (one, other):
            expect(page.get_by_text("Reconnecting")).to_be_visible()
    finally:
        chat_site.start()
    for page in (one, other):
        expect(page.get_by_text("Reconnecting")).to_be_hidden(timeout=20_000)
    say(one, "What is my name?")
    answered(one)
    expect(other.locator("#messages").get_by_text("your name is Ada.")).to_be_visible()
    answered(other)
    for page in (one, other):
        assert page.locator(".message:visible .said").count() == 4
        expect(page.locator("#messages").get_by_text("your name is Ada.")).to_have_count(1)


def test_a_server_that_dies_in_the_middle_of_an_answer_leaves_a_chat_that_goes_on(enter, chat_site):
    page = enter()
    say(page, "Tell me a story")
    expect(page.locator(".streaming .prose").first).to_contain_text("parcel")
    chat_site.kill()
    try:
        expect(page.get_by_text("Reconnecting")).to_be_visible()
    finally:
        chat_site.start()
    expect(page.locator("#send")).to_be_visible(timeout=20_000)
    answered(page)
    expect(page.get_by_text(END)).to_have_count(0)
    say(page, "My name is Ada.")
    answered(page)
    expect(page.locator("#messages").get_by_text("Nice to meet you, Ada.")).to_have_count(1)
    expect(page.locator("#messages").get_by_text("Tell me a story")).to_have_count(1)
