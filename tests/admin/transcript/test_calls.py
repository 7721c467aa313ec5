"""Calls of tools stand beside their results, and many of them under one line."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from django_agent_sessions.models import SessionMessage
from tests.admin.transcripts import call, page_url, result, said, shown

pytestmark = pytest.mark.django_db


def test_a_call_and_its_result_are_on_one_line_with_name_status_and_duration(
    client, reader, talker, store
):
    store.append(talker, said("assistant", call("1", "search", query="lamp"), call("2", "fetch")))
    store.append(talker, said("user", result("1", "three lamps"), result("2", "gone", "error")))
    first = SessionMessage.objects.get(message_id=0)
    SessionMessage.objects.filter(message_id=1).update(
        created_at=first.created_at + timedelta(seconds=7)
    )

    page = shown(client, page_url("session-1"))

    search, fetch = re.findall(r'<details class="as-call.*?</details>\s*(?=<|$)', page, re.S)[:2]
    assert "search" in search
    assert "7.0 s" in search
    assert "ok</span>" in search
    assert 'data-as-call="1">' in search  # closed
    assert "three lamps" in page
    assert re.search(r'data-as-call="2" open', page)
    assert "error</span>" in fetch
    assert page.count("three lamps") == 1


def test_a_call_without_result_and_a_result_without_call_say_so(client, reader, talker, store):
    store.append(talker, said("user", result("9", "from nowhere")))
    store.append(talker, said("assistant", call("1", "search")))

    page = shown(client, page_url("session-1"))

    assert "no result" in page
    assert "a result without a call" in page
    assert "from nowhere" in page


def test_the_other_half_of_a_call_may_be_in_another_part(client, reader, talker, store):
    store.append(talker, said("assistant", call("1", "search")))
    store.append_many(talker, [said("user", "filler")] * 60)
    store.append(talker, said("user", result("1", "late")))

    assert "its call is in earlier messages" in shown(client, page_url("session-1"))
    assert "result in later messages" in shown(client, page_url("session-1"), **{"from": "start"})


def test_many_calls_in_a_row_are_folded_under_one_line(client, reader, talker, store):
    calls = [call(str(number), "search" if number else "fetch") for number in range(5)]
    store.append(talker, said("assistant", *calls))

    page = shown(client, page_url("session-1"))

    assert "5 tool calls" in page
    assert "search ×4, fetch" in page


def test_calls_of_several_items_are_folded_too(client, reader, session, store):
    agent = store.agents.open(session)
    for number in range(3):
        store.append(
            agent,
            {"type": "function_call", "call_id": str(number), "name": "f", "arguments": "{}"},
        )
        store.append(
            agent, {"type": "function_call_output", "call_id": str(number), "output": "done"}
        )
    store.append(agent, {"type": "function_call", "call_id": "x", "name": "g", "arguments": "{}"})

    assert "4 tool calls" in shown(client, page_url("session-1"))
