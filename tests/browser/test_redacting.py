"""The story that all of this is for: find a conversation, read it, remove a secret, prove it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from django_agent_sessions.models import AuditEvent, Session, SessionMessage
from django_agent_sessions.store import SessionStore
from tests.adapters.strands import agents
from tests.adapters.strands.scripted import call

from .elsewhere import elsewhere

pytestmark = pytest.mark.django_db(transaction=True)

LIST = "/admin/agent_sessions/session/"
AUDIT = "/admin/agent_sessions/auditevent/"
SECRET = "DE89 3704 0044 0532 0130 00"
Action = AuditEvent.Action

SELECT = """([text]) => {
  const main = document.querySelector(".as-main");
  const walker = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const start = node.data.indexOf(text);
    if (start < 0) continue;
    const range = document.createRange();
    range.setStart(node, start);
    range.setEnd(node, start + text.length);
    node.parentElement.scrollIntoView({ block: "center" });
    const boxes = [...range.getClientRects()];
    const first = boxes[0], last = boxes.at(-1);
    const [up, down] = [first, last].map((box) => box.top + box.height / 2);
    return [first.left + 1, up, last.right + 1, down];
  }
  return null;
}"""
"""Where the mouse goes down and up to select a text."""


def select(page, text):
    """Selects a text with the mouse."""
    left, top, right, bottom = page.evaluate(SELECT, [text])
    page.mouse.move(left, top)
    page.mouse.down()
    page.mouse.move((left + right) / 2, bottom, steps=3)
    page.mouse.move(right, bottom, steps=3)
    page.mouse.up()
    assert page.evaluate("document.getSelection().toString()") == text


def confirm(page, reason):
    """Gives the reason on the preview, and says yes."""
    page.get_by_label("Reason").fill(reason)
    page.get_by_role("button", name=re.compile(r"^Redact \d+ place")).click()
    page.wait_for_url("**/change/**")


@pytest.fixture
def talk(transactional_db):
    """A conversation of a real agent, which called a tool, and one that is not looked for."""

    def had():
        agent = agents.build(
            call("add", a=19, b=23), "It makes 42. I noted the account.", session_id="teapot"
        )
        agent(f"Please refund the teapot to {SECRET}, Mia Hoffmann.")
        agents.build("Hello!", session_id="other")("Hi there")

    elsewhere(had)
    return Session.objects.get(session_id="teapot")


def test_a_secret_is_found_redacted_and_gone_and_who_did_that_is_on_record(open_page, talk, clerk):
    page = open_page(LIST)
    expect(page.get_by_role("link", name=re.compile("other$"))).to_be_visible()
    page.locator("#searchbar").fill("teapot")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("link", name=re.compile("other$"))).to_have_count(0)
    page.get_by_role("link", name="teapot").click()

    message = page.locator("[data-as-entry]", has_text="Please refund")
    expect(message).to_contain_text(SECRET)
    tool = page.locator("details.as-call", has_text="add")
    expect(tool.get_by_text("42")).to_be_hidden()
    line = tool.locator("> summary")
    line.click()
    expect(tool.locator(".as-half-result")).to_contain_text("42")
    line.focus()
    page.keyboard.press("Enter")
    expect(tool.locator(".as-half-result")).to_be_hidden()
    page.keyboard.press("Space")
    expect(tool.locator(".as-half-result")).to_be_visible()

    select(page, SECRET)
    page.get_by_role("button", name="Redact selection").click()
    hit = page.locator(".as-redact-hit")
    expect(hit).to_have_count(1)
    expect(hit.locator("del")).to_have_text(SECRET)
    expect(hit.locator(".as-redact-after")).to_contain_text("refund the teapot to [REDACTED")
    expect(hit.locator(".as-redact-after")).not_to_contain_text(SECRET)
    assert SECRET in SessionMessage.objects.get(session=talk, message_id=0).text
    assert SECRET not in page.url

    confirm(page, f"Account {SECRET} of a customer, ticket 5120")
    chip = page.locator(".as-chip")
    expect(chip).to_have_count(1)
    expect(chip).to_be_in_viewport()
    assert "ticket 5120" in chip.get_attribute("title")
    assert "clerk" in chip.get_attribute("title")
    for address in (page.url, f"{page.url.split('?')[0]}?plain=1"):
        page.goto(address)
        assert SECRET not in page.content()
    assert SECRET not in SessionMessage.objects.get(session=talk, message_id=0).text

    requests = elsewhere(lambda: _next_call("teapot"))
    assert "refund the teapot to [REDACTED" in str(requests)
    assert SECRET not in str(requests)

    page.goto(AUDIT)
    events = page.locator("#result_list tbody tr")
    redacted = events.filter(has_text="redacted").filter(has_text="ticket 5120")
    expect(redacted).to_have_count(1)
    expect(redacted).to_contain_text("clerk")
    expect(redacted).not_to_contain_text(SECRET)
    expect(events.filter(has_text="transcript read").filter(has_text="clerk")).not_to_have_count(0)
    assert SECRET not in page.content()
    event = AuditEvent.objects.get(action=Action.REDACTED)
    assert (event.session, event.actor_id) == (talk.pk, str(clerk.pk))


def _next_call(session_id):
    agent = agents.build("As you say.", session_id=session_id)
    agent("Is it done?")
    (request,) = agents.requests(agent)
    agents.expect_valid(request)
    return request


def test_a_text_is_found_everywhere_in_a_session_of_openai_and_redacted(open_page, clerk):
    store = SessionStore()

    def had():
        session = store.open("callback", title=f"Refund to {SECRET}")
        agent = store.agents.open(session, dialect="openai")
        store.append_many(
            agent,
            [
                {"role": "user", "content": f"My account is {SECRET}."},
                {
                    "type": "function_call",
                    "call_id": "c1",
                    "name": "pay_back",
                    "arguments": f'{{"iban": "{SECRET}", "amount": 34.9}}',
                },
                {"type": "function_call_output", "call_id": "c1", "output": f"paid to {SECRET}"},
                {
                    "type": "message",
                    "role": "assistant",
                    "id": "msg_1",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "Done.", "annotations": []}],
                },
            ],
        )

    elsewhere(had)
    page = open_page(LIST)
    page.get_by_role("link", name="callback").or_(
        page.get_by_role("link", name="Refund to")
    ).first.click()
    page.get_by_role("link", name="Find and redact…").click()
    page.get_by_label("The text").fill(SECRET.lower())
    page.get_by_role("button", name="Preview").click()
    expect(page.locator(".as-redact-hit")).to_have_count(4)
    expect(page.locator(".as-redact-hit", has_text="REDACTED")).to_have_count(4)

    confirm(page, "ticket 9")
    assert SECRET not in page.content()
    expect(page.locator(".as-chip")).not_to_have_count(0)
    session = Session.objects.get(session_id="callback")
    assert SECRET not in session.title
    stored = list(SessionMessage.objects.filter(session=session).order_by("message_id"))
    assert SECRET not in str([row.message for row in stored])
    assert [row.message.get("call_id") for row in stored] == [None, "c1", "c1", None]
    (event,) = AuditEvent.objects.filter(action=Action.REDACTED)
    assert (event.actor, event.reason) == ("clerk", "ticket 9")


def test_what_is_selected_across_messages_is_not_offered_to_be_redacted(open_page, talk):
    page = open_page(f"/admin/agent_sessions/session/{talk.pk}/change/")
    left, top, *_ = page.evaluate(SELECT, ["Please refund"])
    page.mouse.move(left, top)
    page.mouse.down()
    # Where the last message is now, which the first search has scrolled to.
    box = page.get_by_text("It makes 42").bounding_box()
    page.mouse.move(box["x"] + 30, box["y"] + box["height"] / 2, steps=5)
    page.mouse.up()
    button = page.get_by_role("button", name="Redact selection")

    expect(page.get_by_text("Select within one message")).to_be_visible()
    expect(button).to_be_disabled()


def test_the_keyboard_takes_a_selection_to_the_preview(open_page, talk):
    page = open_page(f"/admin/agent_sessions/session/{talk.pk}/change/")
    select(page, "Mia Hoffmann")
    page.keyboard.press("r")

    expect(page.locator(".as-redact-hit del")).to_have_text("Mia Hoffmann")
