"""Fork and rewind from the transcript; then real agents go on, on both sides, independently."""

from __future__ import annotations

import asyncio
import re

import pytest
from agents import Runner
from playwright.sync_api import expect

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.models import AuditEvent, Session, SessionAgent
from tests.adapters.openai_agents.team import assistant
from tests.adapters.openai_agents.team import requests as requests_of
from tests.adapters.openai_agents.team import texts as texts_of
from tests.adapters.strands import agents
from tests.adapters.strands.scripted import call

from .elsewhere import elsewhere
from .time_pages import address

pytestmark = pytest.mark.django_db(transaction=True)


def say(session_id, text, *steps):
    """Says something to a real Strands agent, in a new process's way, and gives what it was told.

    Returns:
        The texts of the messages that its model was given in its last call.
    """

    def said():
        agent = agents.build(*steps, session_id=session_id)
        agent(text)
        request = agents.requests(agent)[-1]
        agents.expect_valid(request)
        return agents.texts(request)

    return elsewhere(said)


def say_to_openai(session_id, text, answer):
    """Does the same with the other SDK."""

    def said():
        agent = assistant(answer)
        asyncio.run(Runner.run(agent, text, session=DjangoSession(session_id)))
        return texts_of(requests_of(agent)[-1])

    return elsewhere(said)


def on_message(page, text, link):
    """Points at a message and follows one of its links."""
    entry = page.locator("[data-as-entry]", has_text=text).first
    entry.hover()
    entry.locator(".as-others > summary").click()
    entry.get_by_role("link", name=link).click()


def confirm(page, button, where="**/change/**"):
    page.get_by_role("button", name=button, exact=True).click()
    page.wait_for_url(where)


@pytest.fixture
def trip(transactional_db):
    """A conversation of a real agent, which called a tool."""
    say("trip", "I want to go to Rome.", "Rome it is.")
    say("trip", "How much is 19 and 23?", call("add", a=19, b=23), "It makes 42.")
    say("trip", "Book the train.", "The train is booked.")
    return Session.objects.get(session_id="trip")


def test_a_conversation_is_rewound_and_both_branches_go_on_under_a_real_agent(
    open_page, trip, clerk
):
    page = open_page(address(trip, "change"))
    on_message(page, "It makes 42.", "Rewind to here…")
    expect(page.get_by_text("2 messages after it are moved to a side branch")).to_be_visible()
    assert "train" not in page.content()
    confirm(page, "Rewind")
    expect(page.get_by_text("2 messages were moved to branch-1.")).to_be_visible()
    expect(page.locator("[data-as-entry]", has_text="It makes 42.")).to_have_count(1)
    expect(page.locator("[data-as-entry]", has_text="train")).to_have_count(0)

    told = say("trip", "Book a flight.", "The flight is booked.")
    assert told[-1] == "Book a flight."
    assert told[-2] == "It makes 42."
    assert "train" not in str(told)

    page.reload()
    page.locator("[data-as-menu] > summary").click()
    page.get_by_role("link", name="Branches").click()
    page.get_by_role("link", name="Compare branch-1").click()
    expect(page.get_by_text("The first 6 messages are the same on both branches.")).to_be_visible()
    left, right = (page.locator(f".as-pair-side:nth-child({number})") for number in (2, 3))
    expect(left.first).to_contain_text("Book a flight.")
    expect(right.first).to_contain_text("Book the train.")
    expect(left.filter(has_text="train")).to_have_count(0)
    expect(right.filter(has_text="flight")).to_have_count(0)

    page.locator(".as-pair-head").get_by_role("link", name="branch-1").click()
    expect(page.get_by_text("You are reading branch branch-1")).to_be_visible()
    expect(page.locator("[data-as-entry]", has_text="Rome it is.")).to_have_count(1)
    page.get_by_role("link", name="Restore…").click()
    expect(page.get_by_text("which has 8 messages")).to_be_visible()
    confirm(page, "Restore")
    expect(page.get_by_text("The former main branch is now branch-2.")).to_be_visible()

    told = say("trip", "And a hotel.", "The hotel is booked.")
    assert told[-2:] == ["The train is booked.", "And a hotel."]
    assert "flight" not in str(told)
    page.goto(address(trip, "change"))
    expect(page.locator("[data-as-entry]", has_text="The hotel is booked.")).to_have_count(1)
    expect(page.locator("[data-as-entry]", has_text="flight")).to_have_count(0)

    agent = SessionAgent.objects.get(session=trip)
    page.goto(address(trip, "change", agent=agent.pk, branch=2))
    expect(page.locator("[data-as-entry]", has_text="The flight is booked.")).to_have_count(1)
    expect(page.locator("[data-as-entry]", has_text="hotel")).to_have_count(0)
    found = AuditEvent.objects.exclude(action="read").order_by("id")
    assert list(found.values_list("action", "actor")) == [
        ("rewound", "clerk"),
        ("restored", "clerk"),
    ]


def test_a_conversation_is_forked_and_both_go_on_under_real_agents(open_page, trip, clerk):
    page = open_page(address(trip, "change"))
    on_message(page, "It makes 42.", "Fork from here…")
    expect(page.get_by_text("a copy of 6 messages of agent")).to_be_visible()
    confirm(page, "Fork")
    expect(page.get_by_text("This is the fork.")).to_be_visible()
    expect(page.locator("[data-as-entry]", has_text="It makes 42.")).to_have_count(1)
    expect(page.locator("[data-as-entry]", has_text="train")).to_have_count(0)
    fork = Session.objects.exclude(pk=trip.pk).get()
    assert str(fork.pk) in page.url

    told = say(fork.session_id, "Book a flight.", "The flight is booked.")
    assert "train" not in str(told)
    assert told[-2] == "It makes 42."
    told = say("trip", "And a hotel.", "The hotel is booked.")
    assert "flight" not in str(told)
    assert told[-2] == "The train is booked."

    page.reload()
    expect(page.locator(".as-main")).to_contain_text("The flight is booked.")
    expect(page.locator(".as-main")).not_to_contain_text("hotel")
    page.locator(f".as-side a[href*='{trip.pk}']").first.click()
    expect(page.locator(".as-main")).to_contain_text("The hotel is booked.")
    expect(page.locator(".as-main")).not_to_contain_text("flight")
    page.locator(f".as-side a[href*='{fork.pk}']").first.click()
    expect(page.locator(".as-main")).to_contain_text("The flight is booked.")


def test_a_conversation_of_openai_is_rewound_and_forked_and_all_go_on(open_page, clerk):
    say_to_openai("talk", "I want to go to Rome.", "Rome it is.")
    say_to_openai("talk", "Book the train.", "The train is booked.")
    session = Session.objects.get(session_id="talk")
    page = open_page(address(session, "change"))
    on_message(page, "Rome it is.", "Fork from here…")
    confirm(page, "Fork")
    fork = Session.objects.exclude(pk=session.pk).get()
    page.goto(address(session, "change"))
    on_message(page, "Rome it is.", "Rewind to here…")
    confirm(page, "Rewind")

    begun = ["I want to go to Rome.", "Rome it is."]
    told = say_to_openai("talk", "Book a flight.", "The flight is booked.")
    assert told == [*begun, "Book a flight."]
    assert say_to_openai(fork.session_id, "Walk.", "Good luck.") == [*begun, "Walk."]

    agent = SessionAgent.objects.get(session=session)
    page.goto(address(session, "branch_restore", agent.pk, 1))
    confirm(page, "Restore")
    told = say_to_openai("talk", "And a hotel.", "The hotel is booked.")
    assert told == [*begun, "Book the train.", "The train is booked.", "And a hotel."]
    page.goto(address(session, "compare", agent=agent.pk, left=0, right=2))
    expect(page.get_by_text("The first 2 messages are the same on both branches.")).to_be_visible()
    expect(page.locator(".as-pairs")).to_contain_text("The flight is booked.")


def test_a_snapshot_is_taken_and_restored_and_a_real_agent_goes_on_from_it(open_page, trip):
    page = open_page(address(trip, "snapshots"))
    page.get_by_role("button", name="Take snapshot now").click()
    expect(page.get_by_text("A snapshot of agent default was taken.")).to_be_visible()
    say("trip", "Book a flight, too.", "The flight is booked.")
    page.reload()
    page.get_by_role("link", name=re.compile("Restore")).click()
    expect(
        page.get_by_text("2 messages that came later are moved to a side branch")
    ).to_be_visible()
    confirm(page, "Restore")

    told = say("trip", "And a hotel.", "The hotel is booked.")
    assert told[-2:] == ["The train is booked.", "And a hotel."]
    page.goto(address(trip, "branches"))
    page.get_by_role("link", name="Delete… branch-1").click()
    expect(page.get_by_text("The branch cannot be restored.")).to_be_visible()
    confirm(page, "Delete", "**/branches/**")
    expect(page.get_by_text("There are no other branches.")).to_be_visible()
