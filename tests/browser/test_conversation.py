"""What a page of a conversation does beside showing it: copying, shortcuts, watching, a menu."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from django_agent_sessions.models import RunLease, Session, SessionMessage
from tests.admin.transcripts import said

from .example import conversation, write
from .test_pages import LOOKS, violations
from .test_reading import key, talk_of, url

pytestmark = pytest.mark.django_db(transaction=True)


def say(session, text):
    """Adds a message of the session's agent."""
    write(session.agents.get(), [(timezone.now(), said("assistant", text))])


def hold(session):
    """A run begins."""
    expiry = timezone.now() + timedelta(minutes=5)
    return RunLease.objects.create(session=session, expires_at=expiry)


def copied(page):
    return page.evaluate("navigator.clipboard.readText()")


def test_text_code_link_and_id_are_copied_and_it_is_told(open_page):
    session = talk_of(1)
    say(session, "Use **this**:\n\n```python\nprint(1)\nprint(2)\n```")
    page = open_page(url(session))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    told = page.locator("[data-as-told]")
    entry = page.locator(f"#m-{key(session, 1)}")

    entry.get_by_role("button", name="Copy code").click()
    expect(told).to_have_text("Copied.")
    assert copied(page) == "print(1)\nprint(2)"
    entry.hover()
    entry.get_by_role("button", name="Copy text").click()
    page.wait_for_function("navigator.clipboard.readText().then((text) => text.includes('Use'))")
    assert "Copy" not in copied(page)
    assert "print(2)" in copied(page)
    entry.get_by_role("button", name="Copy link").click()
    page.wait_for_function("navigator.clipboard.readText().then((text) => text.includes('#m-'))")
    page.goto(copied(page))
    expect(page.locator(f"#m-{key(session, 1)}")).to_be_focused()

    # Where a page may not use the clipboard, as without https.
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error()) }")
    page.get_by_role("button", name="Copy session id").click()
    page.wait_for_function("navigator.clipboard.readText().then((text) => text === 'long')")


def test_shortcuts_are_listed_and_can_be_switched_off(open_page):
    session = talk_of(3)
    page = open_page(url(session))
    focused = page.locator("[data-as-entry]:focus")

    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog).to_contain_text("Next message")
    page.keyboard.press("j")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(focused).to_have_count(0)
    for keys in ("Control+j", "Alt+j", "Meta+j"):
        page.keyboard.press(keys)
    expect(focused).to_have_count(0)
    page.keyboard.press("G")
    expect(focused).to_contain_text("word 2.")
    page.keyboard.press("g")
    expect(focused).to_contain_text("word 0.")

    page.keyboard.press("?")
    page.get_by_role("checkbox", name="Use shortcuts").uncheck()
    page.get_by_role("button", name="Close").click()
    page.reload()
    for pressed in "jkr?":
        page.keyboard.press(pressed)
    expect(dialog).to_be_hidden()
    assert "redact" not in page.url

    page.locator("[data-as-menu] > summary").click()
    page.get_by_role("button", name="Keyboard shortcuts").click()
    page.get_by_role("checkbox", name="Use shortcuts").check()
    page.get_by_role("button", name="Close").click()
    page.keyboard.press("j")
    page.keyboard.press("r")
    page.wait_for_url(f"**/redact/?message={key(session, 0)}*")


def test_the_menu_is_used_by_keyboard_and_closes(open_page):
    page = open_page(url(conversation()))
    menu = page.locator("[data-as-menu]")
    summary = menu.locator("summary")

    summary.focus()
    page.keyboard.press("Enter")
    expect(menu.get_by_role("link", name="Export…")).to_be_visible()
    page.keyboard.press("Tab")
    expect(menu.get_by_role("link", name="Export…")).to_be_focused()
    page.keyboard.press("Escape")
    expect(menu).not_to_have_attribute("open", "")
    expect(summary).to_be_focused()

    summary.click()
    page.locator("h1.as-title").click()
    expect(menu).not_to_have_attribute("open", "")


def test_a_conversation_grows_while_its_agent_runs_and_says_when_it_ended(open_page):
    session = talk_of(2)
    lease = hold(session)
    page = open_page(url(session))
    expect(page.locator(".as-flag-running")).to_be_visible()
    expect(page.locator(".as-live")).to_contain_text("New messages appear here.")

    say(session, "A word **later**.")
    fresh = page.locator("[data-as-entry]", has_text="A word later.")
    expect(fresh).to_be_visible()
    expect(page.locator("[data-as-told]")).to_have_text("New messages: 1")
    expect(fresh.locator("strong")).to_have_text("later")

    lease.delete()
    expect(page.locator(".as-flag-running")).to_have_count(0)
    expect(page.locator("[data-as-fresh=facts]")).to_contain_text("Messages")
    expect(page.locator("[data-as-entry]")).to_have_count(3)

    Session.objects.filter(pk=session.pk).update(redaction_epoch=1)
    expect(page.locator(".as-live")).to_contain_text("was redacted or rewound")
    expect(page.get_by_role("button", name="Watch again")).to_be_hidden()


def test_a_page_stops_watching_and_says_why(open_page, clerk):
    session = talk_of(2)
    hold(session)
    page = open_page(url(session))
    expect(page.locator(".as-live")).to_be_visible()

    cookies = page.context.cookies()
    page.context.clear_cookies()

    expect(page.locator(".as-live")).to_contain_text("you may no longer see it")
    page.context.add_cookies(cookies)
    say(session, "A secret word.")
    page.wait_for_timeout(2500)
    expect(page.locator("[data-as-entry]")).to_have_count(2)


def test_further_messages_are_loaded_while_one_scrolls(open_page):
    session = talk_of(180)
    page = open_page(f"{url(session)}?from=start")
    entries = page.locator("[data-as-entry]")
    expect(entries).to_have_count(50)

    page.mouse.move(600, 500)
    for _ in range(200):
        page.mouse.wheel(0, 1500)
        page.wait_for_timeout(30)
        if entries.count() == 180:
            break
    expect(entries).to_have_count(180)
    expect(page.get_by_text("word 179.")).to_be_visible()
    numbers = [int(text.split("word ")[1].split(".")[0]) for text in entries.all_text_contents()]
    assert numbers == list(range(180))
    assert SessionMessage.objects.count() == 180


@pytest.mark.parametrize("look", LOOKS)
def test_a_comparison_can_be_read_by_everybody_and_fits_its_width(open_page, look):
    session, other = conversation(), talk_of(4)
    compare = reverse("admin:agent_sessions_session_compare_with", args=[session.pk])
    page = open_page(compare, **LOOKS[look])
    page.get_by_label("Compare with session").fill(other.session_id)
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.get_by_text("turns differ.")).to_be_visible()

    faults = violations(page, colours=look != "narrow", others=look != "dark")
    assert not faults, "\n".join(faults)
    wide, width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= width
