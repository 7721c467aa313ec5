"""Reading a long conversation: windows, places that links name, keys, and all of it by links."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from tests.admin.transcripts import call, result, said

from .example import conversation, others, write

pytestmark = pytest.mark.django_db(transaction=True)

LIST = "/admin/agent_sessions/session/"
LONG = 10_000

LOAD_EARLIER = """async (above) => {
  const link = document.querySelector("[data-as-earlier]");
  link.scrollIntoView();
  window.scrollBy(0, -above);
  const frames = async (count) => {
    while (count--) await new Promise((done) => requestAnimationFrame(done));
  };
  await frames(9);
  const entries = () => document.querySelectorAll("[data-as-entry]");
  const [first, count] = [entries()[0], entries().length];
  const top = first.getBoundingClientRect().top;
  link.click();
  while (entries().length === count) await frames(1);
  await frames(9);
  return first.getBoundingClientRect().top - top;
}"""
"""Loads earlier messages; tells by how much those moved that were there before."""


def talk_of(count, name="long"):
    began = timezone.now() - timedelta(hours=4)
    session = Session.objects.create(session_id=name, title="A talk", created_at=began)
    agent = SessionAgent.objects.create(session=session, agent_id="agent", dialect="strands")
    roles = ("user", "assistant")
    write(
        agent,
        (
            (began + timedelta(seconds=number), said(roles[number % 2], f"word {number}."))
            for number in range(count)
        ),
    )
    return session


def url(session):
    return reverse("admin:agent_sessions_session_change", args=[session.pk])


def key(session, position):
    return SessionMessage.objects.get(session=session, message_id=position).pk


def test_a_conversation_of_ten_thousand_messages_is_read_both_ways_in_place(open_page):
    session = talk_of(LONG)
    page = open_page(url(session))
    entries = page.locator("[data-as-entry]")
    expect(entries).to_have_count(50)
    expect(entries.last).to_contain_text("word 9999.")

    target = key(session, 5000)
    page.goto(f"{url(session)}?at={target}#m-{target}")
    anchor = page.locator(f"#m-{target}")
    expect(anchor).to_contain_text("word 5000.")
    expect(anchor).to_be_in_viewport()
    expect(anchor).to_be_focused()
    before = entries.count()

    for above in (200, -400):
        moved = page.evaluate(LOAD_EARLIER, above)
        assert abs(moved) < 5, f"what was read moved by {moved} pixels"
    expect(entries).to_have_count(before + 100)
    page.get_by_role("link", name="Later messages").click()
    expect(entries).to_have_count(before + 150)

    shown = page.locator("[data-as-entry]").all_text_contents()
    numbers = [int(text.split("word ")[1].split(".")[0]) for text in shown]
    assert numbers == list(range(numbers[0], numbers[0] + before + 150))
    assert "word 5000." in page.locator(f"#m-{target}").text_content()


def test_keys_move_between_messages_and_conversations_and_coming_back_keeps_the_place(open_page):
    others(3)
    session = talk_of(12)
    page = open_page(f"{url(session)}?from=start")
    focused = page.locator("[data-as-entry]:focus")

    page.keyboard.press("j")
    expect(focused).to_contain_text("word 0.")
    for _ in range(4):
        page.keyboard.press("j")
    page.keyboard.press("k")
    expect(focused).to_contain_text("word 3.")
    assert page.url.endswith(f"#m-{key(session, 3)}")

    page.keyboard.press("/")
    expect(page.locator("#as-query")).to_be_focused()
    page.keyboard.type("jk")
    expect(page.locator("#as-query")).to_have_value("jk")
    page.locator("#as-query").fill('"word 7."')
    page.keyboard.press("Enter")
    expect(page.get_by_text("1 message found")).to_be_visible()
    assert "word" not in page.url
    page.locator(".as-hits a").click()
    expect(page.locator(f"#m-{key(session, 7)}")).to_be_in_viewport()
    here = page.url

    page.keyboard.press("[")
    page.wait_for_url(lambda address: str(session.pk) not in address)
    page.keyboard.press("]")
    page.wait_for_url(lambda address: str(session.pk) in address)
    page.go_back()
    page.go_back()
    assert page.url == here
    expect(page.locator(f"#m-{key(session, 7)}")).to_be_in_viewport()


def test_a_key_opens_and_closes_all_that_is_folded(open_page):
    page = open_page(f"{url(conversation())}?from=start")
    closed = page.locator(".as-main details:not([open], .as-others)")
    page.get_by_role("button", name="Expand all").click()
    if closed.count():
        page.keyboard.press("e")
    expect(closed).to_have_count(0)

    page.keyboard.press("e")

    expect(page.locator(".as-main details[open]")).to_have_count(0)


def test_markdown_can_be_read_as_it_was_written_and_agents_one_by_one(open_page):
    session = conversation()
    page = open_page(f"{url(session)}?from=start")
    expect(page.locator(".as-main strong", has_text="full refund")).to_be_visible()

    page.locator("[data-as-menu] > summary").click()
    page.get_by_role("button", name="Plain text").click()
    expect(page.get_by_text("**full refund**")).to_be_visible()
    page.locator("[data-as-menu] > summary").click()
    page.get_by_role("button", name="Plain text").click()
    expect(page.get_by_text("**full refund**")).to_have_count(0)

    page.get_by_role("navigation", name="Agents").get_by_text("billing").click()
    expect(page.locator("[data-as-entry]")).to_have_count(3)
    expect(page.get_by_text("I found it.")).to_have_count(0)
    page.get_by_role("link", name="All agents").click()
    expect(page.locator("[data-as-entry]")).to_have_count(13)


def test_a_result_that_comes_with_another_part_goes_to_its_call(open_page):
    session = talk_of(0)
    agent = session.agents.get()
    now = timezone.now()
    filler = [said("user", f"word {number}.") for number in range(49)]
    messages = [
        said("assistant", "I look.", call("c1", "look", at="the sky")),
        said("user", result("c1", "the sky is blue")),
        *filler,
    ]
    write(agent, ((now + timedelta(seconds=at), each) for at, each in enumerate(messages)))
    page = open_page(url(session))
    expect(page.get_by_text("the sky is blue")).to_be_visible()

    page.get_by_role("link", name="Earlier messages").click()

    one = page.locator("details.as-call")
    expect(one).to_have_count(1)
    expect(one.locator(".as-half-result")).to_contain_text("the sky is blue")


def test_without_scripts_everything_that_matters_works_by_links(open_page):
    session = talk_of(120)
    page = open_page(LIST, java_script_enabled=False)
    page.locator("#searchbar").fill("long")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name=re.compile("long$")).click()
    expect(page.get_by_text("word 119.")).to_be_visible()
    page.get_by_role("link", name="Earlier messages").click()
    expect(page.get_by_text("word 69.")).to_be_visible()
    expect(page.get_by_text("word 70.")).to_have_count(0)
    page.get_by_role("link", name="Later messages").click()
    expect(page.get_by_text("word 70.")).to_be_visible()
    page.get_by_role("link", name="Start", exact=True).click()
    expect(page.get_by_text("word 0.")).to_be_visible()

    page.locator("#as-query").fill('"word 7."')
    page.get_by_role("button", name="Find", exact=True).click()
    expect(page.get_by_text("1 message found")).to_be_visible()
    page.locator(".as-hits a").click()
    message = page.locator(f"#m-{key(session, 7)}")
    message.get_by_role("link", name="Redact message…").click()
    page.get_by_role("radio", name="A text").check()
    page.get_by_label("The text").fill("word 7.")
    page.get_by_role("button", name="Preview").click()
    page.get_by_label("Reason").fill("ticket 5")
    page.get_by_role("button", name="Redact 1 place").click()

    expect(page.locator(f"#m-{key(session, 7)} :is(.as-chip, .as-tombstone)")).to_be_visible()
    assert "word 7." not in page.content()
    session.refresh_from_db()
    assert session.redactions == 1
