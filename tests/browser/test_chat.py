"""The example's chat page, on its own server, in a real browser."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from .chat_site import answered, chat_of, say
from .pictures import smaller

SECRET = "4111 1111 1111 1111"
ATTACK = '<script>pwn("text")</script><img src=x onerror=pwn("image")> ' + "x" * 3000
PICTURES = Path(os.environ.get("SCREENSHOTS", ".cache/screenshots"))
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 860}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 860}},
    "phone": {"color_scheme": "light", "viewport": {"width": 375, "height": 812}},
}


def test_a_chat_from_its_first_message_to_its_end(enter):
    page = enter()
    say(page, "Show me a weather map of Oslo")
    expect(page).to_have_url(re.compile(r"/chat/[0-9a-f-]{36}$"))
    answered(page)
    tool = page.locator("details.tool")
    expect(tool).to_have_count(1)
    tool.locator("summary").click()
    expect(tool.get_by_text("snow, -3 °C")).to_be_visible()
    expect(page.get_by_role("img", name="Picture")).to_be_visible()
    expect(page.locator(".picture img").first).to_have_js_property("naturalWidth", 320)

    say(page, f"My card number is {SECRET}.")
    answered(page)
    page.reload()
    expect(page.get_by_text(SECRET)).to_be_visible()

    page.get_by_role("button", name="Rename this chat").click()
    page.get_by_label("Title").fill("The weather")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="The weather")).to_be_visible()

    page.get_by_role("button", name="Redact your message: My card").click()
    page.get_by_label("The whole message").check()
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("dialog").get_by_text(SECRET)).to_be_visible()
    page.get_by_label("Reason").fill("it is mine")
    page.get_by_role("button", name="Redact permanently").click()
    expect(page.get_by_text(SECRET)).to_have_count(0)
    expect(page.locator(".message .chip", has_text="redacted")).to_be_visible()
    chat = chat_of(page)
    told = page.request.get(f"/api/agent-sessions/sessions/{chat}/messages/?raw=true")
    assert told.status == 200
    assert SECRET not in told.text()

    page.get_by_role("button", name="Delete this chat").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("Which agent should answer?")).to_be_visible()
    assert page.request.get(f"/api/agent-sessions/sessions/{chat}/").status == 404


@pytest.mark.parametrize("agent", ["Strands agent", "OpenAI agent"])
def test_an_answer_comes_in_pieces_and_can_be_stopped(enter, agent):
    page = enter()
    page.get_by_label(agent).check()
    say(page, "Tell me a story")
    streaming = page.locator(".streaming .prose").first
    expect(streaming).to_contain_text("parcel")
    first = streaming.inner_text()
    expect(streaming).not_to_have_text(first)
    page.keyboard.press("Escape")
    answered(page)
    expect(page.get_by_text("kettle on for two")).to_have_count(0)
    say(page, "My name is Ada.")
    expect(page.locator("#messages").get_by_text("Nice to meet you, Ada.")).to_be_visible()
    answered(page)


def test_what_is_hostile_is_text(enter):
    page = enter()
    say(page, ATTACK)
    answered(page)
    expect(page.locator(".message.user")).to_contain_text("<script>")
    assert page.evaluate("[...window.__pwned, ...window.__violations]") == []
    wide, width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= width


MAPS = {
    "light": "Show me a weather map of Oslo",
    "dark": "Draw the weather map of Nairobi",
    "phone": "A map of Lisbon, please",
}


def serious_faults(page):
    """What axe finds that keeps people out."""
    found = Axe().run(page, options={"resultTypes": ["violations"], "preload": False})
    return [
        f"{each['id']}: {node['html'][:200]}"
        for each in found.response["violations"]
        if each["impact"] in {"serious", "critical"}
        for node in each["nodes"]
    ]


def picture(page, name):
    PICTURES.mkdir(parents=True, exist_ok=True)
    (PICTURES / f"chat-{name}.png").write_bytes(smaller(page.screenshot(caret="initial")))


@pytest.mark.parametrize("look", LOOKS)
def test_the_page_can_be_read_by_everybody_and_fits_its_width(enter, look):
    page = enter("ada", **LOOKS[look])
    say(page, MAPS[look])
    answered(page)
    expect(page.locator(".picture img").first).to_have_js_property("naturalWidth", 320)
    say(page, "Think about it: shall I go?")
    answered(page)
    picture(page, look)
    assert serious_faults(page) == []
    wide, width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= width


def test_what_would_be_redacted_is_shown_before(enter):
    page = enter("ada", **LOOKS["light"])
    say(page, f"Which hotel in Lisbon? My card number is {SECRET}.")
    answered(page)
    page.get_by_role("button", name="Redact your message").click()
    page.get_by_label("A text, everywhere").check()
    page.get_by_label("The text").fill(SECRET)
    page.get_by_role("button", name="Preview").click()
    page.get_by_label("Reason").fill("I do not need the hotel any more")
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("del")).to_contain_text(f"card number is {SECRET}")
    expect(dialog.locator("ins")).to_contain_text("card number is [REDACTED]")
    picture(page, "redact")
    assert serious_faults(page) == []
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_text(SECRET).last).to_be_visible()


@pytest.mark.parametrize("look", ["light", "dark"])
def test_the_login_can_be_read_by_everybody(enter, look):
    page = enter(None, **LOOKS[look])
    page.get_by_label("Username").fill("nobody")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("Please enter a correct username")).to_be_visible()
    assert serious_faults(page) == []
