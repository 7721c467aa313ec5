"""Each message of an assistant shows its model, tokens, latency and cost; a session its status."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from django_agent_sessions.content.dialects import OPENAI, STRANDS, STRANDS_NODE
from django_agent_sessions.models import RunLease, SessionMessage
from django_agent_sessions.values.records import AgentState
from tests.admin.people import staff
from tests.admin.transcripts import call, page_url, result, said, shown

pytestmark = pytest.mark.django_db

FIGURES = {"usage": {"inputTokens": 1834, "outputTokens": 112}, "metrics": {"latencyMs": 2140}}


def lines(page: str) -> list[str]:
    """The quiet lines under the messages, up to their actions."""
    found = re.findall(r'<div class="as-meta">(.*?)<span class="as-extra">', page, re.DOTALL)
    return [" ".join(re.sub("<[^>]*>", " ", each).split()) for each in found]


def test_an_answer_shows_model_tokens_latency_and_cost(client, reader, talker, store, settings):
    settings.AGENT_SESSIONS = {
        "PRICES": {"sonnet": {"input": 3, "output": 15}},
        "CURRENCY": "EUR",
    }
    store.append(talker, said("user", "a question"))
    store.append(talker, {**said("assistant", "an answer"), "metadata": FIGURES})
    SessionMessage.objects.filter(message_id=1).update(model="sonnet-4")
    store.append(talker, said("assistant", "another answer"))

    asked, told, unknown = lines(shown(client, page_url("session-1")))

    assert "1834 in, 112 out" in told.replace(",", "", 1)
    assert "sonnet-4" in told
    assert "2.1 s" in told
    assert "cost 0.0072 EUR" in told
    assert unknown == "#2 link to this message tokens unknown"
    assert asked == "#0 link to this message"


def test_without_prices_no_cost_is_shown(client, reader, talker, store):
    store.append(talker, {**said("assistant", "an answer"), "metadata": FIGURES})

    assert "cost" not in lines(shown(client, page_url("session-1")))[0]


# --- status ----------------------------------------------------------------------------------


def status(client) -> str:
    page = shown(client, page_url("session-1"))
    found = re.search(r'as-flag-(running|waiting|failed)">([^<]*)<', page)
    return f"{found[1]}: {found[2]}" if found else ""


def test_a_session_with_a_lease_is_running_until_it_expires(client, reader, talker, store):
    now = timezone.now()
    store.append(talker, said("user", "a question"))
    assert status(client) == ""

    lease = RunLease.objects.create(
        session_id=talker.session, expires_at=now + timedelta(minutes=1)
    )
    assert status(client) == "running: Running"

    RunLease.objects.filter(pk=lease.pk).update(expires_at=now - timedelta(seconds=1))
    assert status(client) == ""


def test_a_call_without_a_result_at_the_end_is_an_interrupted_run(client, reader, talker, store):
    store.append(talker, said("assistant", call("1", "search")))
    assert status(client) == "failed: Interrupted"

    store.append(talker, said("user", result("1", "found")))
    assert status(client) == ""


@pytest.mark.parametrize(
    ("dialect", "state"),
    [
        (STRANDS, AgentState({}, {}, {"interrupt_state": {"activated": True}})),
        (OPENAI, AgentState({"run_state": {"calls": ["c1"]}})),
    ],
)
def test_an_agent_that_asks_a_person_waits(client, reader, session, store, dialect, state):
    store.agents.open(session, "asker", dialect=dialect, data=state)

    assert status(client) == "waiting: Waiting for a person"
    # The state is content.
    client.force_login(staff("clerk", "view_session"))
    assert status(client) == ""


# --- graphs and swarms -----------------------------------------------------------------------


def test_a_graph_is_a_tree_of_its_nodes_with_their_messages_and_status(
    client, reader, session, store
):
    for node in ("task", "planner", "writer"):
        agent = store.agents.open(session, f"trip/{node}", dialect=STRANDS_NODE)
        store.append(agent, said("assistant", f"words of the {node}"))
    store.agents.open(session, "aside", dialect=STRANDS)
    state = {
        "status": "failed",
        "execution_order": ["planner", "writer"],
        "node_results": {"planner": {"status": "completed"}, "writer": {"status": "failed"}},
        "next_nodes_to_execute": ["<critic>"],
    }
    store.multi_agents.create(session, "trip", state, kind="graph", nodes=False)

    page = shown(client, page_url("session-1"))

    tree = page[page.index('<ul class="as-nodes">') :]
    rows = re.findall(r"<li.*?</li>", tree[: tree.index("</ul>")], re.DOTALL)
    words = [" ".join(re.sub("<[^>]*>", " ", row).split()) for row in rows]
    # A sealed state has a size, even if it is empty.
    assert [row.split(" State ")[0] for row in words] == [
        "planner 1 message completed",
        "writer 1 message failed",
        "task 1 message",
        "&lt;critic&gt; next",
    ]
    assert "as-lanes-4" in page
    assert status(client) == "failed: Failed"
    assert "aside" in tree[tree.index("</ul>") :]
