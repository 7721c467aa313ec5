"""What the nodes of a graph said: found, read node by node, exported and redacted."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from playwright.sync_api import Download, expect

from django_agent_sessions.adapters.strands import DjangoSessionManager
from django_agent_sessions.models import Session
from django_agent_sessions.testing import columns_containing
from tests.adapters.strands import agents
from tests.adapters.strands.process import node

from .elsewhere import elsewhere

pytestmark = pytest.mark.django_db(transaction=True)

LIST = "/admin/agent_sessions/session/"
SAID = {
    "trip/task": "Plan a week in autumn.",
    "trip/planner": "Take the night train to Ljubljana.",
    "trip/writer": "A week between lakes and caves.",
    "trip/critic": "Too many caves.",
}


@pytest.fixture
def trip(transactional_db):
    """A graph of real agents, in which one word is the planner's only."""

    def had():
        from strands.multiagent import GraphBuilder

        builder = GraphBuilder()
        builder.set_graph_id("trip")
        builder.set_max_node_executions(9)
        builder.set_session_manager(DjangoSessionManager("holidays"))
        names = ("planner", "writer", "critic")
        for name in names:
            builder.add_node(node(name, SAID[f"trip/{name}"]), name)
        builder.add_edge("planner", "writer")
        builder.add_edge("writer", "critic")
        builder.set_entry_point("planner")
        builder.build()(SAID["trip/task"])
        agents.build("Hello!", session_id="other")("Hi there")

    elsewhere(had)
    return Session.objects.get(session_id="holidays")


def test_a_graph_is_found_by_a_word_of_a_node_read_exported_and_redacted(open_page, trip):
    page = open_page(LIST)
    page.locator("#searchbar").fill("Ljubljana")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("link", name="other", exact=True)).to_have_count(0)
    page.get_by_role("link", name="holidays").click()

    entries = page.locator("[data-as-entry]")
    expect(entries).to_have_count(4)
    for entry, text in zip(entries.all(), SAID.values(), strict=True):
        expect(entry).to_contain_text(text)
    main = page.locator(".as-main")
    for name in SAID:
        expect(main).to_contain_text(name)
    page.get_by_role("navigation", name="Agents").get_by_text("trip/planner").click()
    expect(entries).to_have_count(1)
    expect(entries).to_contain_text("Ljubljana")
    page.get_by_role("link", name="All agents").click()
    expect(entries).to_have_count(4)

    page.locator("[data-as-menu] > summary").click()
    page.get_by_role("link", name="Export").click()
    page.get_by_label("Reason").fill("ticket 7")
    page.get_by_label("Markdown").check()
    downloads: list[Download] = []
    page.on("download", lambda download: downloads.append(download))
    page.get_by_role("button", name="Export").click()
    until = time.monotonic() + 10
    while not downloads and time.monotonic() < until:
        page.wait_for_timeout(50)
    exported = Path(downloads[0].path()).read_text()
    for name, text in SAID.items():
        assert name in exported
        assert text in exported

    page.get_by_role("link", name="Back to the conversation").click()
    page.get_by_role("link", name="Find and redact…").click()
    page.get_by_label("The text").fill("Ljubljana")
    page.get_by_role("button", name="Preview").click()
    # The message, and its copy in the state of the graph.
    expect(page.locator(".as-redact-hit")).to_have_count(2)
    page.get_by_label("Reason").fill("ticket 8")
    page.get_by_role("button", name=re.compile(r"^Redact \d+ place")).click()
    page.wait_for_url("**/change/**")

    expect(page.locator("[data-as-entry]", has_text="night train")).to_contain_text("redacted")
    assert columns_containing("Ljubljana") == []
