"""Five tasks of a support team, each by what is on the screen only: links, buttons and labels.

Each begins on the first page of the admin. The pictures in the documentation are taken here:
``make screenshots``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings
from django.urls import reverse

from django_agent_sessions.models import Operation, Session, SessionMessage

from .pictures import smaller
from .support_team import CARD, CUSTOMER, SETTINGS, Shop, shop

pytestmark = pytest.mark.django_db(transaction=True)

PICTURES = Path(os.environ.get("SCREENSHOTS", ".cache/screenshots")) / "tasks"
LARGEST = 80 * 1024
WINDOW = {"width": 1060, "height": 540}

STEPS = {"find": 7, "redact": 11, "audit": 8, "export": 13, "cost": 3}
"""Clicks and filled-in fields, as docs/how-to/support-team.md states them: two minutes are 24."""


class Reader:
    """Somebody who reads the screen, and clicks, selects or fills in one thing after another."""

    def __init__(self, page: Any, task: str) -> None:
        self.page, self.task = page, task
        self.steps = self._pictures = 0

    def click(self, name: str, role: str = "link", *, within: str = "#container") -> None:
        self.steps += 1
        self.page.locator(within).get_by_role(role, name=name, exact=True).first.click()

    def open_row(self, title: str) -> None:
        self.steps += 1
        self.page.locator("#result_list").get_by_role("link", name=title).first.click()

    def open_menu(self, name: str) -> None:
        self.steps += 1
        self.page.get_by_text(name, exact=True).click()

    def fill(self, label: str, text: str) -> None:
        self.steps += 1
        self.page.get_by_label(label, exact=True).first.fill(text)

    def search(self, words: str) -> None:
        self.steps += 1
        self.page.locator("#searchbar").fill(words)
        self.click("Search", "button")

    def look(self, words: str, *, top: bool = False, scroll: bool = False) -> None:
        """Find words on the screen, and take a picture of it."""
        found = self.page.get_by_text(words).first
        found.wait_for()
        if scroll:
            found.evaluate("one => one.scrollIntoView()")
        if top:
            self.page.evaluate("scrollTo(0, 0)")
        self._pictures += 1
        picture = smaller(self.page.screenshot())
        assert len(picture) <= LARGEST, f"{self.task}-{self._pictures}: {len(picture)} bytes"
        PICTURES.mkdir(parents=True, exist_ok=True)
        (PICTURES / f"{self.task}-{self._pictures}.png").write_bytes(picture)


@pytest.fixture
def made(transactional_db: None) -> Any:
    with override_settings(AGENT_SESSIONS=SETTINGS):
        yield shop()


@pytest.fixture
def begin(made: Shop, open_page: Any) -> Any:
    """Begins a task on the first page of the admin, and counts the steps that it takes."""
    readers: list[Reader] = []

    def begun(task: str) -> Reader:
        page = open_page(viewport=WINDOW)
        page.add_init_script("localStorage.setItem('django.admin.navSidebarIsOpen', 'false')")
        page.goto(reverse("admin:index"))
        readers.append(Reader(page, task))
        return readers[-1]

    yield begun
    [reader] = readers
    assert reader.steps == STEPS[reader.task]


def open_promise(reader: Reader) -> None:
    reader.click("Agent sessions", within="#content tbody")
    reader.search(CUSTOMER)
    reader.open_row("Coffee machine, again")


def test_the_conversation_in_which_a_refund_was_promised_last_tuesday_is_found(begin, made):
    reader = begin("find")
    reader.click("Agent sessions", within="#content tbody")
    tuesday = f"{made.tuesday:%Y-%m-%d}"
    reader.fill("From", tuesday)
    reader.fill("Until", tuesday)
    reader.page.locator("#changelist-filter .as-filter").first.get_by_role("button").click()
    reader.steps += 1
    reader.search("promise refund")
    reader.look("Coffee machine, again")
    assert reader.page.locator("#result_list tbody tr").count() == 1
    reader.open_row("Coffee machine, again")
    reader.look("I promise you a full refund")


def test_a_card_number_is_taken_out_of_everything_that_a_customer_said(begin, made):
    reader = begin("redact")
    open_promise(reader)
    reader.look("Owner", top=True)
    reader.click(CUSTOMER)
    reader.look("Act on all sessions…")
    reader.click("Act on all sessions…")
    reader.click("Redact", "radio")
    reader.fill("The text", CARD)
    reader.fill("Reason", "Card number in chats, ticket 8121")
    reader.fill("Confirmation", "redact")
    reader.look("What to redact", scroll=True)
    reader.click("Start", "button")
    # The work of six sessions in the background.
    done = reader.page.locator("[data-as-figure=done]", has_text="5")
    done.wait_for(timeout=30_000)
    reader.page.get_by_text("Done", exact=True).first.wait_for()
    reader.look("Card number in chats, ticket 8121")
    operation = Operation.objects.get()
    assert (operation.status, operation.done, operation.unchanged) == ("done", 5, 1)
    rows = SessionMessage.objects.filter(session__in=made.with_card)
    stored = [row.message for row in rows]
    assert "4242" not in repr(stored)
    assert repr(stored).count("[REDACTED]") == 5


def test_who_read_a_conversation_is_found(begin, made):
    reader = begin("audit")
    open_promise(reader)
    reader.open_menu("Actions")
    reader.look("Who read or changed it", top=True)
    reader.click("Who read or changed it")
    reader.page.locator("[name=action__exact]").select_option(label="Transcript read")
    reader.page.locator("#changelist-filter .as-filter").first.get_by_role("button").click()
    reader.steps += 2
    reader.look("tom.baker")
    actors = reader.page.locator("#result_list .field-by").all_inner_texts()
    assert set(actors) == {"clerk", "tom.baker", "ines.keller"}


def test_a_conversation_is_exported_for_a_lawyer_and_put_under_hold(begin, made):
    reader = begin("export")
    open_promise(reader)
    reader.open_menu("Actions")
    reader.click("Export…")
    reader.fill("Reason", "Claim of the customer, case 2026-31")
    reader.look("Export conversation")
    files: list[Any] = []
    reader.page.on("download", lambda download: files.append(download))
    reader.click("Export", "button")
    while not files:
        reader.page.wait_for_timeout(50)
    assert "I promise you a full refund" in Path(files[0].path()).read_text()
    reader.click("Back to the conversation")
    reader.open_menu("Actions")
    reader.click("Put under legal hold…", "button")
    reader.fill("Reason", "Claim of the customer, case 2026-31")
    reader.look("Put under legal hold")
    reader.click("Put under legal hold", "button")
    reader.look("1 session is now under legal hold.")
    reader.look("I promise you a full refund")
    assert Session.objects.get(legal_hold=True) == made.promised


def test_why_yesterday_was_expensive_is_seen(begin):
    reader = begin("cost")
    reader.click("Usage", within="#content tbody")
    reader.look("Cost per day")
    reader.click("Yesterday")
    reader.look("Costs that grew most", scroll=True)
    grown = reader.page.get_by_role("region", name="Costs that grew most").get_by_role("row")
    texts = grown.all_inner_texts()
    assert texts[1].startswith("research")
    assert any(text.startswith("claude-opus-4") for text in texts)
    reader.click("research")
    reader.look("Carrier report")
    assert reader.page.locator("#result_list .field-agent_names").first.inner_text() == "research"
