"""Several processes on the branches of one conversation."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession
from django_agent_sessions.models import Branch, Session, SessionMessage, TurnUsage
from tests.adapters.processes import work_together

from .team import texts, user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]

WORKER = "tests.adapters.openai_agents.branch_worker"


@pytest.fixture(autouse=True)
def _two_turns(db):
    asyncio.run(AdvancedDjangoSession("s").add_items([user("first"), user("second")]))


def on_branches() -> dict[str, list[Any]]:
    """The payloads on each branch, whose positions must be dense."""
    names = {0: "main", **dict(Branch.objects.values_list("number", "name"))}
    found: dict[str, list[Any]] = {name: [] for name in names.values()}
    rows = SessionMessage.objects.order_by("branch", "message_id")
    for branch, position, message in rows.values_list("branch", "message_id", "message"):
        assert position == len(found[names[branch]])
        found[names[branch]].append(message)
    originals = SessionMessage.objects.exclude(source__in=SessionMessage.objects.values("pk"))
    assert Session.objects.get().message_count == originals.count()
    return found


def test_branches_that_are_made_at_once_have_names_of_their_own_and_lose_nothing():
    told = work_together(WORKER, "branch", "s", 6, processes=2)

    made = {name: text for lines in told for name, text in map(json.loads, lines)}
    found = on_branches()
    assert len(made) == 12
    assert sorted(texts(found.pop("main"))) == sorted(
        ["first", "second", *(f"main {text}" for text in made.values())]
    )
    assert {name: texts(items) for name, items in found.items()} == {
        name: ["first", f"branch {text}"] for name, text in made.items()
    }
    assert set(TurnUsage.objects.values_list("turn", "input_tokens")) == {(2, 10)}
    assert TurnUsage.objects.count() == 12
    assert Session.objects.get().input_tokens == 120


def test_a_name_that_several_want_is_given_once():
    told = work_together(WORKER, "race", "s", 5, processes=3)

    assert Counter(name for lines in told for name in lines) == {str(n): 1 for n in range(5)}
    found = on_branches()
    assert texts(found.pop("main")) == ["first", "second"]
    for number in range(5):
        first, *added = texts(found[str(number)])
        assert first == "first"
        assert sorted(added) == [f"{process}-{number}" for process in range(3)]


def test_nobody_reads_or_writes_on_a_branch_that_came_after_another_one():
    work_together(WORKER, "churn", "s", 4, processes=3)

    found = on_branches()
    added = [f"{process}-{number}" for process in range(3) for number in range(4)]
    assert set(found) == {"main"}
    assert sorted(texts(found["main"])) == sorted(["first", "second", *added])
