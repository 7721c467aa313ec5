"""What a chat shows: long ones, thoughts, tools that failed, and graphs."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from .chat_seed import LONG
from .chat_site import answered, say


def test_older_messages_load_upwards_and_what_is_read_stays_where_it_is(enter):
    page = enter("reader")
    page.locator("#list a", has_text="A long chat").click()
    lines = page.locator("#messages > .message")
    expect(lines).to_have_count(50)
    expect(page.get_by_text(f"Line {LONG - 1}.")).to_be_in_viewport()
    line = page.get_by_text(f"Line {LONG - 50}.", exact=True)
    place = """() => {
      const box = document.getElementById("scroll");
      box.scrollTop = 0;
    }"""
    page.evaluate(place)
    expect(lines).to_have_count(100)
    expect(line).to_be_in_viewport()
    page.evaluate(place)
    expect(lines).to_have_count(LONG)
    expect(page.get_by_role("button", name="Earlier messages")).to_be_hidden()
    said = page.locator("#messages .said").all_inner_texts()
    assert [text.strip() for text in said] == [f"Line {number}." for number in range(LONG)]


@pytest.mark.parametrize("agent", ["Strands agent", "OpenAI agent"])
def test_thoughts_are_folded_while_they_come_and_after(enter, agent):
    page = enter()
    page.get_by_label(agent).check()
    say(page, "Please think about my journey")
    thoughts = page.locator("details.reasoning")
    expect(thoughts).to_have_count(1)
    thought = page.get_by_text("better slept on")
    expect(thought).to_be_hidden()
    answered(page)
    for _ in range(2):
        expect(thoughts).to_have_count(1)
        expect(thought).to_be_hidden()
        expect(page.locator("#messages").get_by_text("it can wait until tomorrow")).to_be_visible()
        thoughts.locator("summary").click()
        expect(thought).to_be_visible()
        page.reload()


def test_a_tool_that_failed_is_shown_as_that(enter):
    page = enter()
    say(page, "What is the weather in Atlantis?")
    answered(page)
    tool = page.locator("details.tool")
    expect(tool.locator("summary")).to_contain_text("failed")
    tool.locator("summary").click()
    expect(tool.get_by_role("heading", name="Error")).to_be_visible()
    expect(tool).to_contain_text("Atlantis is on no map")


def test_a_graph_is_shown_and_nothing_can_be_said_in_it(enter):
    page = enter("demo")
    page.get_by_role("searchbox", name="Search chats").fill("letter")
    page.locator("#list a", has_text="A letter about Lisbon").click()
    graph = page.get_by_role("region", name="graph trip")
    expect(graph).to_contain_text("A weekend in Lisbon")
    expect(graph.locator(".message", has_text="planner")).to_contain_text("old town")
    expect(graph.locator(".message", has_text="writer")).to_contain_text("Dear traveller")
    expect(page.get_by_text("This conversation is read-only")).to_be_visible()
    expect(page.locator("#composer")).to_be_hidden()
    expect(page.locator(".redact")).to_have_count(0)


def test_the_state_of_a_graph_is_not_shown_to_users_who_may_not_read_states(enter):
    page = enter("reader")
    page.locator("#list a", has_text="A letter about Lisbon").click()
    graph = page.get_by_role("region", name="graph trip")
    expect(graph).to_contain_text("You do not have permission to see its state.")
    expect(graph).not_to_contain_text("old town")
    expect(page.locator("#composer")).to_be_hidden()
