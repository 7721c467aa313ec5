"""Looking for what to redact, while others write and where nothing is to be changed."""

from __future__ import annotations

import traceback

import pytest
from django.db import connection

from django_agent_sessions.exceptions import RedactionScopeError
from django_agent_sessions.governance.redaction import Block, Find, Span, WholeMessage, redact

pytestmark = pytest.mark.django_db(transaction=True)


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def test_a_preview_reads_an_agent_that_is_made_meanwhile(store, session, agent):
    store.append(agent, user("plantedsecret"))
    made: list[int] = []

    def make(execute, sql, params, many, context):
        if not made and "sessionmultiagent" in sql:
            made.append(1)
            store.append(store.agents.open(session, "other"), user("plantedsecret"))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(make):
        done = redact(session.id, Find("plantedsecret"), reason="r", dry_run=True)

    assert made
    assert done.messages == 2


def test_the_name_of_an_orchestrator_is_kept_and_told_and_is_no_finding(store, session):
    store.multi_agents.create(session, "graph1", {"type": "graph", "id": "graph1", "x": "graph1"})

    first = redact(session.id, Find("graph1"), reason="r")
    again = redact(session.id, Find("graph1"), reason="r")

    assert (first.states, again.states, again.epoch) == (1, 0, first.epoch)
    assert len(first.hits) == 1
    assert again.hits == []
    assert ("state", ("id",)) in {(place.column, place.path) for place in again.kept}


@pytest.mark.parametrize(
    "scope",
    [
        lambda key: Span(key, ("content", "plantedsecret"), 0, 1),
        lambda key: Span(key, ("plantedsecret",), 0, 1),
        lambda key: Block(key, ("plantedsecret",)),
        lambda key: Find("plantedsecret(", pattern=True),
    ],
)
def test_no_error_holds_what_was_named_not_even_in_what_caused_it(store, session, agent, scope):
    wrong = scope(store.append(agent, user("x")).id)

    with pytest.raises(RedactionScopeError) as caught:
        redact(session.id, wrong, reason="r")

    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert "plantedsecret" not in str(caught.value)
    shown = traceback.format_exception_only(caught.type, caught.value)
    assert "plantedsecret" not in "".join(shown)


@pytest.mark.parametrize(
    "scope",
    [lambda key: Block(key, ("content", -1)), lambda key: Span(key, ("content", -1, "text"), 0, 1)],
)
def test_a_place_that_is_counted_from_the_end_is_refused_and_not_passed_over(
    store, session, agent, scope
):
    said = {"role": "user", "content": [{"type": "input_text", "text": "plantedsecret"}]}
    wrong = scope(store.append(agent, said).id)

    with pytest.raises(RedactionScopeError):
        redact(session.id, wrong, reason="r")


def test_the_block_of_a_whole_item_leaves_an_item(store, session, agent):
    call = {"type": "function_call", "call_id": "1", "name": "f", "arguments": '{"a": "x"}'}
    one, other = store.append_many(agent, [call, call])

    redact(session.id, Block(one.id, ()), reason="r")
    redact(session.id, WholeMessage(other.id), reason="r")

    assert store.payloads(agent) == [{**call, "arguments": "{}"}] * 2
